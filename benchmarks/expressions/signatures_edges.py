"""Values at the edges of types: the lowest and highest times, text that is no UTF-8, nested and long values."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

from benchmarks.expressions.signatures import Choice, Signature

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_YEAR_US = 31_556_952_000_000

KINDS = {
    "far_timestamp": "timestamp",
    "far_timestamp_ntz": "timestamp_ntz",
    "far_date": "date",
    "far_months": "interval year to month",
    "far_duration": "interval day to second",
    "many_digits": "double",
    "many_float_digits": "float",
    "no_utf8": "binary",
    "clock_change": "timestamp",
    "local_clock_change": "timestamp_ntz",
    "interval_text": "string",
}

VALUES = {
    "far_timestamp": [
        *(_LOWEST, _LOWEST + 1, _HIGHEST, _HIGHEST - 1, -62_135_596_800_000_000, -62_135_596_800_000_001),
        *(253_402_300_799_999_999, 253_402_300_800_000_000, -100_000 * _YEAR_US, 200_000 * _YEAR_US),
    ],
    "far_timestamp_ntz": [
        *(_LOWEST, _HIGHEST, -62_135_596_800_000_001, 253_402_300_800_000_000, 100_000 * _YEAR_US),
    ],
    "far_date": [-719_528, -719_529, -719_162, 2_932_896, 2_932_897, -(2**31), 2**31 - 1, -800_000, 20_000_000],
    "far_months": [2**31 - 1, -(2**31), 11, -11, 12_000],
    "far_duration": [_LOWEST, _HIGHEST, 999_999, -999_999, 3_600_000_000, -86_399_999_999],
    "many_digits": [
        *(2e23, 1.1e-5, 2.2250738585072014e-308, 5e-324, 9007199254740993.0, 1.0e23, 8.41e21, 2.0e-3, 4.35, 0.3),
        *(
            123456789012345680.0,
            1.7976931348623157e308,
            1e22,
            9.5e-8,
            1.2345678901234567,
            5.0e-5,
            2.98023223876953125e-8,
        ),
    ],
    "many_float_digits": [1.1e-5, 1.17549435e-38, 16777216.0, 3.3e10, 0.3, 8.5e9, 1.0e23, 9.999999e-4, 33554432.0],
    "no_utf8": [b"\xff", b"a\xffb", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\x80z", b"ab\xf5 c"],
    "clock_change": [
        *(1_773_050_400_000_000 - 1, 1_773_050_400_000_000, 1_793_523_600_000_000 - 1, 1_793_520_000_000_000),
        *(1_793_523_600_000_000 + 1_800_000_000, 1_774_746_000_000_000, -2_717_640_000_000_000, -2_717_640_000_000_001),
    ],
    "local_clock_change": [
        *(1_773_021_600_000_000, 1_773_023_400_000_000, 1_773_025_200_000_000, 1_793_494_800_000_000),
        *(1_793_496_600_000_000, 1_793_498_399_999_999, -2_717_668_378_000_000),
    ],
    "interval_text": [
        *("1", "-1", "1-2", "-1-11", "0-12", "INTERVAL '1-2' YEAR TO MONTH", "interval '5' month", "1 02:03:04.5", "x"),
        *("-1 00:00:00", "INTERVAL '1 02:03:04' DAY TO SECOND", "INTERVAL '02:03' HOUR TO MINUTE", "", " 3 ", "02:03"),
        *("+2-3", "178956970-7", "178956970-8", "106751991 04:00:54.775807", "INTERVAL -'1' MONTH", "1-13"),
        "1 24:00:00",
    ],
    "array<boolean>": [[], [True], [False, None, True]],
    "array<date>": [[], [dt.date(1, 1, 1), None], [dt.date(9999, 12, 31), dt.date(1970, 1, 1)]],
    "array<timestamp>": [[], [0, None], [-1, 1_793_523_600_000_000]],
    "array<decimal(38,18)>": [[], [Decimal("0E-18"), None], [Decimal("9" * 20 + "." + "9" * 18), Decimal("-1.5")]],
    "array<binary>": [[], [b"", None], [b"\xff", b"a", b"\xff"]],
    "array<struct<a:int,b:string>>": [[], [{"a": 1, "b": "x"}, None], [{"a": None, "b": "😀"}, {"a": 1, "b": "x"}]],
    "array<map<string,int>>": [[], [[("a", 1)], None], [[], [("é", None)]]],
    "map<string,array<int>>": [[], [("a", [1, None])], [("b", []), ("", None)]],
    "map<double,string>": [[], [(math.nan, "n")], [(0.0, "z"), (math.inf, None)], [(-1.5, "")]],
    "map<string,struct<a:int,b:string>>": [[], [("k", {"a": 1, "b": None})], [("k", None), ("l", {"a": 2, "b": "y"})]],
    "struct<a:array<int>,b:map<string,int>>": [{"a": [1, None], "b": [("x", 1)]}, {"a": None, "b": []}],
}

_ARRAYS = {
    "array<boolean>": "boolean",
    "array<date>": "date",
    "array<timestamp>": "timestamp",
    "array<decimal(38,18)>": "decimal(38,18)",
    "array<binary>": "binary",
    "array<struct<a:int,b:string>>": "struct<a:int,b:string>",
}


def _of_arrays() -> list[Signature]:
    rows = []
    for kind, element in _ARRAYS.items():
        rows += [
            Signature("CreateArray", "array({0}, {1})", (element, element), kind),
            Signature("GetArrayItem", "{0}[{1}]", (kind, "small"), element),
            Signature("ElementAt", "element_at({0}, {1})", (kind, "small"), element),
            Signature("ArrayContains", "array_contains({0}, {1})", (kind, element), "boolean"),
            Signature("ArrayPosition", "array_position({0}, {1})", (kind, element), "bigint"),
            Signature("ArrayRemove", "array_remove({0}, {1})", (kind, element), kind),
            Signature("ArrayDistinct", "array_distinct({0})", (kind,), kind),
            Signature("ArrayUnion", "array_union({0}, {1})", (kind, kind), kind),
            Signature("ArrayIntersect", "array_intersect({0}, {1})", (kind, kind), kind),
            Signature("ArrayExcept", "array_except({0}, {1})", (kind, kind), kind),
            Signature("ArraysOverlap", "arrays_overlap({0}, {1})", (kind, kind), "boolean"),
            Signature("ArrayMax", "array_max({0})", (kind,), element),
            Signature("ArrayMin", "array_min({0})", (kind,), element),
            Signature("SortArray", "sort_array({0}, {1})", (kind, Choice("true", "false")), kind),
            Signature("ArrayInsert", "array_insert({0}, {1}, {2})", (kind, "small", element), kind),
            Signature("ArrayRepeat", "array_repeat({0}, {1})", (element, "small"), kind),
            Signature("Slice", "slice({0}, {1}, {2})", (kind, "small", "small"), kind),
            Signature("ArraysZip", "arrays_zip({0}, {1})", (kind, "array<int>")),
            Signature("Concat", "concat({0}, {1})", (kind, kind), kind),
            Signature("Reverse", "reverse({0})", (kind,), kind),
            Signature("EqualTo", "({0} = {1})", (kind, kind), "boolean"),
            Signature("LessThan", "({0} < {1})", (kind, kind), "boolean"),
            Signature("EqualNullSafe", "({0} <=> {1})", (kind, kind), "boolean"),
            Signature("Cast", "cast({0} as string)", (kind,), "string"),
            Signature("Murmur3Hash", "hash({0})", (kind,), "int"),
            Signature("XxHash64", "xxhash64({0})", (kind,), "bigint"),
            Signature("StructsToJson", "to_json({0})", (kind,), "string"),
            Signature("Coalesce", "coalesce({0}, {1})", (kind, kind), kind),
            Signature("CaseWhen", "case when {0} then {1} else {2} end", ("boolean", kind, kind), kind),
            Signature("ArrayFilter", "filter({0}, x -> x >= {1})", (kind, element), kind),
            Signature("ArrayTransform", "transform({0}, (x, n) -> if(n = 0, x, {1}))", (kind, element), kind),
            Signature("ArraySort", "array_sort({0})", (kind,), kind),
        ]
    return rows


def _of_nested() -> list[Signature]:
    maps, lists, doubles = "array<map<string,int>>", "map<string,array<int>>", "map<double,string>"
    records, both = "map<string,struct<a:int,b:string>>", "struct<a:array<int>,b:map<string,int>>"
    rows = []
    for kind in (maps, lists, doubles, records, both):
        rows += [
            Signature("Cast", "cast({0} as string)", (kind,), "string"),
            Signature("StructsToJson", "to_json({0})", (kind,), "string"),
            Signature("Coalesce", "coalesce({0}, {1})", (kind, kind), kind),
            Signature("If", "if({0}, {1}, {2})", ("boolean", kind, kind), kind),
            Signature("TypeOf", "typeof({0})", (kind,), "string"),
            Signature("IsNull", "({0} is null)", (kind,), "boolean"),
        ]
    return [
        *rows,
        Signature("ElementAt", "element_at({0}, {1})", (lists, "string"), "array<int>"),
        Signature("ElementAt", "element_at({0}, {1})", (doubles, "double"), "string"),
        Signature("GetMapValue", "{0}[{1}]", (doubles, "double"), "string"),
        Signature("CreateMap", "map({0}, {1}, {2}, {3})", ("double", "string", "double", "string"), doubles),
        Signature("CreateMap", "map({0}, {1})", ("string", "array<int>"), lists),
        Signature("CreateMap", "map({0}, 1, {1}, 2)", ("timestamp", "timestamp")),
        Signature("CreateMap", "map({0}, 1, {1}, 2)", ("struct<a:int,b:string>", "struct<a:int,b:string>")),
        Signature("MapConcat", "map_concat({0}, {1})", (doubles, doubles), doubles),
        Signature("MapKeys", "map_keys({0})", (doubles,), "array<double>"),
        Signature("MapEntries", "map_entries({0})", (records,)),
        Signature("MapFromArrays", "map_from_arrays({0}, {1})", ("array<double>", "array<string>"), doubles),
        Signature("MapFromEntries", "map_from_entries(map_entries({0}))", (lists,), lists),
        Signature("MapFromEntries", "map_from_entries({0})", ("array<struct<a:int,b:string>>",)),
        Signature("GetArrayStructFields", "{0}.b", ("array<struct<a:int,b:string>>",), "array<string>"),
        Signature("GetMapValue", "{0}['k'].b", (records,), "string"),
        Signature("ElementAt", "{0}.b['x']", (both,), "int"),
        Signature("Size", "size({0}.a)", (both,), "int"),
        Signature("Flatten", "flatten(map_values({0}))", (lists,), "array<int>"),
        Signature("Flatten", "flatten(array({0}, {1}))", ("array<string>", "array<string>"), "array<string>"),
        Signature("TransformValues", "transform_values({0}, (k, v) -> size(v))", (lists,), "map<string,int>"),
        Signature("MapFilter", "map_filter({0}, (k, v) -> isnan(k) or v is null)", (doubles,), doubles),
        Signature("MapZipWith", "map_zip_with({0}, {1}, (k, a, b) -> concat(a, b))", (doubles, doubles), doubles),
        Signature("ArrayAggregate", "aggregate({0}, cast(0 as double), (s, x) -> s + x)", ("array<double>",), "double"),
        Signature("ArrayAggregate", "aggregate({0}, array(0), (s, x) -> concat(s, array(x)))", ("array<int>",)),
    ]


_TEXT_CALLS = (
    *("upper({0})", "lower({0})", "initcap({0})", "reverse({0})", "trim({0})", "length({0})", "octet_length({0})"),
    *("substring({0}, 2)", "substring({0}, -2, 1)", "left({0}, 1)", "right({0}, 1)", "concat({0}, 'x', {0})"),
    *(
        "lpad({0}, 4, 'x')",
        "rpad({0}, 1, 'y')",
        "repeat({0}, 2)",
        "replace({0}, 'b', 'zz')",
        "translate({0}, 'ab', 'x')",
    ),
    *("instr({0}, 'b')", "locate('b', {0})", "split({0}, 'b')", "contains({0}, 'b')", "startswith({0}, 'a')"),
    *("({0} like 'a%')", "({0} like '_')", "({0} rlike 'b')", "regexp_replace({0}, 'b', 'c')", "ascii({0})"),
    *("regexp_extract({0}, '(.)b', 1)", "is_valid_utf8({0})", "make_valid_utf8({0})", "try_validate_utf8({0})"),
    *("validate_utf8({0})", "hex({0})", "md5({0})", "hash({0})", "xxhash64({0})", "cast({0} as binary)", "base64({0})"),
    *(
        "({0} = {1})",
        "({0} < {1})",
        "greatest({0}, {1})",
        "concat_ws(',', {0}, {1})",
        "to_json(named_struct('a', {0}))",
    ),
    *("cast({0} as int)", "cast({0} as date)", "cast({0} as boolean)", "overlay({0}, 'x', 2)", "soundex({0})", "{0}"),
    *("substring_index({0}, 'b', 1)", "split_part({0}, 'b', 1)", "levenshtein({0}, 'ab')", "find_in_set({0}, 'a,b')"),
    *(
        "url_encode({0})",
        "encode({0}, 'UTF-8')",
        "format_string('%s', {0})",
        "array_join(array({0}), ',')",
        "btrim({0})",
    ),
    *(
        "array_contains(array({0}), {1})",
        "array_distinct(array({0}, {1}))",
        "map({0}, 1)",
        "cast(array({0}) as string)",
    ),
    *(
        "regexp_count({0}, '.')",
        "bit_length({0})",
        "mask({0})",
        "from_json({0}, 'a int')",
        "get_json_object({0}, '$.a')",
    ),
    *("str_to_map({0}, 'b', ' ')", "ltrim('a', {0})", "encode({0}, 'UTF-16')", "crc32({0})", "quote({0})"),
)


def _of_broken_text() -> list[Signature]:
    text = "cast({0} as string)", "cast({1} as string)"
    return [Signature("BrokenText", call.format(*text), ("no_utf8", "no_utf8")) for call in _TEXT_CALLS]


def _of_extremes() -> list[Signature]:
    rows = []
    for kind in ("far_timestamp", "far_timestamp_ntz", "clock_change", "local_clock_change", "far_date"):
        rows += [
            Signature("FarTime", f"{function}({{0}})", (kind,), "int")
            for function in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear")
        ]
        rows += [
            Signature("FarTime", sql, (kind,))
            for sql in (
                *("cast({0} as string)", "cast({0} as date)", "cast({0} as timestamp)", "cast({0} as timestamp_ntz)"),
                *("date_trunc('week', {0})", "date_trunc('hour', {0})", "date_trunc('year', {0})", "last_day({0})"),
                *("add_months({0}, 13)", "{0} + interval '1' month", "{0} - interval '1' year", "to_json(struct({0}))"),
                *("date_format({0}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')", "unix_timestamp({0})", "next_day({0}, 'MO')"),
                *("{0} + interval '1' day", "{0} - interval '25' hour", "hash({0})", "trunc({0}, 'Q')", "{0}"),
                *(
                    "months_between({0}, timestamp'2026-03-29 02:30:00')",
                    "datediff({0}, date'1970-01-01')",
                    "weekday({0})",
                ),
                *("extract(yearofweek from {0})", "dayname(cast({0} as date))", "to_csv(struct({0}))"),
            )
        ]
        if "date" not in kind:
            rows += [
                Signature("FarTime", sql, (kind,))
                for sql in (
                    "hour({0})",
                    "minute({0})",
                    "second({0})",
                    "extract(second from {0})",
                    "cast({0} as string)",
                )
            ]
    for kind in ("far_timestamp", "clock_change"):
        rows += [
            Signature("FarTime", sql, (kind,))
            for sql in (
                *(
                    "unix_seconds({0})",
                    "unix_millis({0})",
                    "unix_micros({0})",
                    "cast({0} as bigint)",
                    "cast({0} as double)",
                ),
                *(
                    "from_utc_timestamp({0}, 'Europe/Berlin')",
                    "to_utc_timestamp({0}, 'Asia/Seoul')",
                    "cast({0} as int)",
                ),
                *(
                    "timestampadd(DAY, 1, {0})",
                    "timestampdiff(MONTH, {0}, timestamp'2026-03-29 02:30:00')",
                    "date({0})",
                ),
            )
        ]
    rows += [
        Signature("FarTime", "({0} - {1})", ("far_timestamp", "far_timestamp")),
        Signature("FarTime", "({0} - {1})", ("far_date", "far_date")),
        Signature("FarTime", "datediff({0}, {1})", ("far_date", "far_date")),
        Signature("FarTime", "date_add({0}, {1})", ("far_date", "int"), "date"),
        Signature("FarTime", "timestamp_micros({0})", ("bigint",), "timestamp"),
        Signature("FarTime", "date_from_unix_date({0})", ("int",), "date"),
        Signature("FarTime", "timestamp_millis({0})", ("bigint",), "timestamp"),
    ]
    return rows


def _of_intervals() -> list[Signature]:
    rows = []
    for kind in ("interval year to month", "far_months", "interval day to second", "far_duration"):
        rows += [
            Signature("Cast", "cast({0} as string)", (kind,), "string"),
            Signature("TypeOf", "typeof({0})", (kind,), "string"),
            Signature("TypeOf", "typeof(array({0}))", (kind,), "string"),
            Signature("Cast", "cast(array({0}) as string)", (kind,), "string"),
            Signature("Cast", "cast(named_struct('a', {0}) as string)", (kind,), "string"),
            Signature("StructsToJson", "to_json(named_struct('a', {0}))", (kind,), "string"),
            Signature("Abs", "abs({0})", (kind,)),
            Signature("Signum", "sign({0})", (kind,), "double"),
            Signature("UnaryMinus", "(- {0})", (kind,)),
            Signature("Add", "({0} + {1})", (kind, kind)),
            Signature("Murmur3Hash", "hash({0})", (kind,), "int"),
            Signature("Concat", "concat('<', {0}, '>')", (kind,), "string"),
            Signature("LessThan", "({0} < {1})", (kind, kind), "boolean"),
        ]
    for months in ("interval year to month", "far_months"):
        for target in ("int", "bigint", "smallint", "decimal(10,0)"):
            rows.append(Signature("Cast", f"cast({{0}} as {target})", (months,)))
        rows.append(Signature("Cast", "cast({0} as interval month)", (months,)))
        rows.append(Signature("Cast", "cast({0} as interval year)", (months,)))
    for time in ("interval day to second", "far_duration"):
        for target in ("int", "bigint", "decimal(20,5)", "interval hour", "interval day", "interval minute to second"):
            rows.append(Signature("Cast", f"cast({{0}} as {target})", (time,)))
    rows += [
        Signature("Cast", f"cast({{0}} as {target})", (kind,))
        for kind in ("int", "bigint", "decimal(5,2)")
        for target in ("interval year", "interval month", "interval day", "interval hour", "interval second")
    ]
    rows += [
        Signature("Cast", f"cast({{0}} as {target})", ("interval_text",))
        for target in ("interval year to month", "interval month", "interval day to second", "interval hour to minute")
    ]
    rows += [
        Signature("TypeOf", f"typeof(interval '{text}' {unit})", (), "string")
        for text, unit in (("1", "day"), ("1-2", "year to month"), ("3", "month"), ("1:2", "hour to minute"))
    ]
    return rows


def _of_digits() -> list[Signature]:
    rows = []
    for kind in ("many_digits", "double", "many_float_digits", "float"):
        rows += [
            Signature("NumberText", sql, (kind,))
            for sql in (
                *(
                    "cast({0} as string)",
                    "to_json(struct({0}))",
                    "concat({0}, '')",
                    "to_csv(struct({0}))",
                    "round({0}, 3)",
                ),
                *("cast({0} as decimal(38,18))", "cast(cast({0} as string) as double)", "cast(-{0} as string)"),
                *(
                    "cast(array({0}) as string)",
                    "cast({0} as decimal(20,5))",
                    "format_number({0}, 3)",
                    "bround({0}, 4)",
                ),
                *(
                    "cast({0} / 3 as string)",
                    "cast({0} * 1.1D as string)",
                    "round({0} * 7, 5)",
                    "format_string('%s', {0})",
                ),
            )
        ]
    return rows


SIGNATURES = [
    *_of_arrays(),
    *_of_nested(),
    *_of_broken_text(),
    *_of_extremes(),
    *_of_intervals(),
    *_of_digits(),
    Signature("Greatest", "greatest(0.0, -0.0, {0})", ("double",), "double"),
    Signature("Greatest", "greatest({0}, -0.0D, 0.0D)", ("double",), "double"),
    Signature("Least", "least(0.0D, {0}, -0.0D)", ("double",), "double"),
    Signature("Greatest", "greatest({0}, {1}, 0.0F)", ("float", "float"), "float"),
]
