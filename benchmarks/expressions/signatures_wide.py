"""Casts between all types, functions of elements inside each other, and texts made at random: patterns, schemas."""

from __future__ import annotations

from random import Random

from benchmarks.expressions.signatures import Choice, Lambda, Made, Signature

_NUMBERS = (
    *("tinyint", "smallint", "int", "bigint", "float", "double"),
    *("decimal(5,2)", "decimal(10,0)", "decimal(20,5)", "decimal(38,18)", "decimal(38,0)"),
)
_DATED = ("date", "timestamp", "timestamp_ntz")
_TEXTS = ("string", "number_string", "date_string", "word")
_ATOMS = (*_NUMBERS, *_DATED, *_TEXTS, "boolean", "binary")
_TARGETS = (*_NUMBERS, *_DATED, "string", "boolean", "binary", "decimal(38,38)", "decimal(3,3)", "decimal(12,7)")
_NO_CAST = {
    *(("binary", target) for target in _TARGETS if target != "string"),
    *((source, "binary") for source in (*_DATED, "boolean", *_NUMBERS)),
    *((source, target) for source in ("date", "timestamp_ntz") for target in (*_NUMBERS, "boolean")),
    *((source, target) for source in (*_NUMBERS, "boolean") for target in ("date", "timestamp_ntz")),
    *(("boolean", "timestamp"), ("timestamp", "boolean")),
}
_INTS, _STRINGS, _DOUBLES, _NESTED = "array<int>", "array<string>", "array<double>", "array<array<int>>"
_STRUCT, _STRUCTS = "struct<a:int,b:string>", "array<struct<a:int,b:string>>"
_MAP, _OTHER_MAP = "map<string,int>", "map<int,string>"


def _quoted(text: str) -> str:
    """A SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _casts() -> list[Signature]:
    rows = []
    odd = ("decimal(38,38)", "decimal(3,3)", "decimal(12,7)", "timestamp")
    for source in _ATOMS:
        for target in _TARGETS:
            if (source, target) in _NO_CAST or (source == "timestamp" and target in odd[:3]):
                continue
            gives = target if target not in odd[:3] else ""
            rows.append(Signature("AnyCast", f"cast({{0}} as {target})", (source,), gives))
            rows.append(Signature("AnyCast", f"try_cast({{0}} as {target})", (source,), gives))
    elements = {
        _INTS: ("array<bigint>", "array<double>", "array<boolean>", "array<decimal(5,2)>", "array<tinyint>"),
        _STRINGS: ("array<double>", "array<date>", "array<boolean>", "array<binary>", "array<timestamp>"),
        _DOUBLES: ("array<string>", "array<float>", "array<decimal(20,5)>", "array<bigint>"),
        _NESTED: ("array<array<string>>", "array<array<double>>"),
        "array<date>": ("array<string>", "array<timestamp>", "array<timestamp_ntz>"),
        "array<timestamp>": ("array<string>", "array<date>", "array<bigint>"),
        _MAP: ("map<string,string>", "map<string,double>", "map<string,tinyint>"),
        _OTHER_MAP: ("map<string,string>", "map<bigint,int>", "map<double,boolean>"),
        _STRUCT: ("struct<a:string,b:int>", "struct<x:tinyint,y:double>", "struct<a:boolean,b:date>"),
        _STRUCTS: ("array<struct<a:bigint,b:boolean>>",),
    }
    for source, targets in elements.items():
        for target in targets:
            rows.append(Signature("AnyCast", f"cast({{0}} as {target})", (source,)))
            rows.append(Signature("AnyCast", f"try_cast({{0}} as {target})", (source,)))
    return rows


def _lambdas() -> list[Signature]:
    rows = []
    for kind, element in (
        (_INTS, "int"), (_STRINGS, "string"), (_DOUBLES, "double"), (_NESTED, _INTS), (_STRUCTS, _STRUCT)
    ):  # fmt: skip
        for other, gives in ((_INTS, "int"), (_STRINGS, "string"), (_DOUBLES, "double"), (_NESTED, _INTS)):
            rows.append(Signature("AnyTransform", "transform({0}, {1})", (kind, Lambda((element,), gives)), other))
        rows += [
            Signature("AnyTransform", "transform({0}, {1})", (kind, Lambda((element, "int"), element)), kind),
            Signature("AnyFilter", "filter({0}, {1})", (kind, Lambda((element,), "boolean")), kind),
            Signature("AnyFilter", "filter({0}, {1})", (kind, Lambda((element, "int"), "boolean")), kind),
            Signature("AnyExists", "exists({0}, {1})", (kind, Lambda((element,), "boolean")), "boolean"),
            Signature("AnyForAll", "forall({0}, {1})", (kind, Lambda((element,), "boolean")), "boolean"),
            Signature("AnyZip", "zip_with({0}, {1}, {2})", (kind, _INTS, Lambda((element, "int"), "int")), _INTS),
            Signature(
                "AnyZip", "zip_with({0}, {1}, {2})", (_STRINGS, kind, Lambda(("string", element), element)), kind
            ),
        ]
        for state in ("int", "string", "boolean"):
            merge, finish = Lambda((state, element), state), Lambda((state,), "string")
            rows.append(Signature("AnyAggregate", "aggregate({0}, {1}, {2})", (kind, state, merge), state))
            rows.append(Signature("AnyAggregate", "reduce({0}, {1}, {2}, {3})", (kind, state, merge, finish), "string"))
    for kind, key, value in ((_MAP, "string", "int"), (_OTHER_MAP, "int", "string")):
        pair = (key, value)
        rows += [
            Signature("AnyMapFilter", "map_filter({0}, {1})", (kind, Lambda(pair, "boolean")), kind),
            Signature("AnyValues", "transform_values({0}, {1})", (kind, Lambda(pair, value)), kind),
            Signature("AnyKeys", "transform_keys({0}, {1})", (kind, Lambda(pair, key)), kind),
            Signature(
                "AnyMapZip", "map_zip_with({0}, {1}, {2})", (kind, kind, Lambda((key, value, value), value)), kind
            ),
        ]
    return rows


_ATOMS_OF_PATTERNS = (
    *("a", "b", "c", "[a-c]", "[^a]", ".", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "x", " ", "é", "1"),
    *("[a-z&&[^b]]", "[\\w&&[^\\d]]", "\\p{Lu}", "\\p{Alpha}", "\\P{L}", "\\p{javaLowerCase}", "\\p{IsGreek}", "\\h"),
    *("\\R", "[abc[x-z]]", "\\Q.+\\E", "\\x61", "\\u0062", "\\0141", "\\x{1F600}", "\\t", "[\\s,;]", "\\p{Punct}"),
    *("\\v", "\\.", "[.]", "[-a]", "[a-]", "\\p{IsAlphabetic}", "\\p{Nd}", "\\cA", "😀", "ß", "[é-ü]", "\\H", "\\V"),
    *("\\p{ASCII}", "\\p{Space}", "\\p{L}", "[^\\s\\d]", "\\p{javaUpperCase}", "\\p{XDigit}", "\\p{Sc}", "\\p{M}"),
)
_MARKS = ("*", "+", "?", "*?", "+?", "??", "++", "*+", "?+", "{2}", "{1,2}", "{0,3}?", "{2,}", "{1,}+")
_ANCHORS = ("^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z", "(?i)", "(?s)", "(?m)", "(?x)", "(?u)", "(?-i)")
_GROUPS = ("({})", "(?:{})", "(?={})", "(?!{})", "(?<={})", "(?<!{})", "(?>{})", "(?<n>{})", "(?i:{})", "({})")


def _pattern_part(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.12:
        return random.choice(_ANCHORS)
    if kind < 0.32 and depth:
        part = random.choice(_GROUPS).format(_pattern(random, depth - 1))
    else:
        part = random.choice(_ATOMS_OF_PATTERNS)
    return part + random.choice(_MARKS) if random.random() < 0.35 else part


def _pattern(random: Random, depth: int = 2) -> str:
    text = "".join(_pattern_part(random, depth) for _ in range(random.randrange(1, 4)))
    if random.random() < 0.15:
        text += "|" + _pattern_part(random, depth)
    return text


def _pattern_text(random: Random) -> str:
    return _quoted(_pattern(random))


def _replacement_text(random: Random) -> str:
    parts = ("x", "$0", "$1", "\\$", "\\\\", "${n}", "-", "é", "😀", "$", "$2", "\\a", "")
    return _quoted("".join(random.choice(parts) for _ in range(random.randrange(3))))


def _like_text(random: Random) -> str:
    return _quoted(
        "".join(
            random.choice(("%", "_", "a", "b", "é", "😀", "\\%", "\\_", ".", "x")) for _ in range(random.randrange(5))
        )
    )


def _patterns() -> list[Signature]:
    pattern, replacement, group = Made(_pattern_text), Made(_replacement_text), Choice("0", "1", "2")
    rows = []
    for kind in ("text", "string", "sentence"):
        rows += [
            Signature("AnyPattern", "({0} rlike {1})", (kind, pattern), "boolean"),
            Signature("AnyPattern", "regexp_extract({0}, {1}, {2})", (kind, pattern, group), "string"),
            Signature("AnyPattern", "regexp_extract_all({0}, {1}, {2})", (kind, pattern, group), _STRINGS),
            Signature("AnyReplacement", "regexp_replace({0}, {1}, {2})", (kind, pattern, replacement), "string"),
            Signature("AnyPattern", "regexp_count({0}, {1})", (kind, pattern), "int"),
            Signature("AnyPattern", "regexp_instr({0}, {1})", (kind, pattern), "int"),
            Signature("AnyPattern", "regexp_substr({0}, {1})", (kind, pattern), "string"),
            Signature("AnyPattern", "split({0}, {1})", (kind, pattern), _STRINGS),
            Signature("AnyPattern", "split({0}, {1}, {2})", (kind, pattern, Choice("-1", "0", "2")), _STRINGS),
            Signature("AnyLike", "({0} like {1})", (kind, Made(_like_text)), "boolean"),
            Signature("AnyLike", "({0} ilike {1})", (kind, Made(_like_text)), "boolean"),
        ]
    return [
        *rows,
        Signature("PatternColumn", "({0} rlike {1})", ("text", "pattern"), "boolean"),
        Signature("PatternColumn", "regexp_replace({0}, {1}, {2})", ("text", "pattern", "string"), "string"),
        Signature("PatternColumn", "regexp_extract({0}, {1}, {2})", ("text", "pattern", "small"), "string"),
        Signature("PatternColumn", "regexp_extract_all({0}, {1}, {2})", ("text", "pattern", "small"), _STRINGS),
        Signature("PatternColumn", "regexp_count({0}, {1})", ("text", "pattern"), "int"),
        Signature("PatternColumn", "split({0}, {1}, {2})", ("text", "pattern", "small"), _STRINGS),
        Signature("PatternColumn", "({0} like {1})", ("text", "like_pattern"), "boolean"),
        Signature("PatternColumn", "({0} ilike {1})", ("text", "like_pattern"), "boolean"),
        Signature("PatternColumn", "({0} like {1} escape '#')", ("text", "like_pattern"), "boolean"),
        Signature("PatternColumn", "date_format({0}, {1})", ("timestamp", "time_pattern"), "string"),
        Signature("PatternColumn", "to_timestamp({0}, {1})", ("date_string", "time_pattern"), "timestamp"),
        Signature("PatternColumn", "to_date({0}, {1})", ("date_string", "time_pattern"), "date"),
        Signature("PatternColumn", "from_unixtime({0}, {1})", ("bigint", "time_pattern"), "string"),
        Signature("PatternColumn", "get_json_object({0}, {1})", ("json", "json_path"), "string"),
        Signature("PatternColumn", "get_json_object({0}, {1})", ("odd_json", "json_path"), "string"),
        Signature("PatternColumn", "format_string({0}, {1}, {2})", ("format", "text", "int"), "string"),
        Signature("PatternColumn", "parse_url({0}, {1}, {2})", ("url", "url_part", "string"), "string"),
        Signature("PatternColumn", "parse_url({0}, {1})", ("url", "url_part"), "string"),
        Signature("PatternColumn", "from_utc_timestamp({0}, {1})", ("timestamp", "any_zone"), "timestamp"),
        Signature("PatternColumn", "convert_timezone({1}, {2}, {0})", ("timestamp_ntz", "any_zone", "any_zone")),
        Signature("PatternColumn", "make_timestamp(2026, 3, {1}, 2, {0}, 0, {2})", ("part", "part", "any_zone")),
        Signature("PatternColumn", "encode({0}, {1})", ("text", "charset"), "binary"),
        Signature("PatternColumn", "decode({0}, {1})", ("binary", "charset"), "string"),
        Signature("PatternColumn", "date_trunc({1}, {0})", ("timestamp", "any_unit"), "timestamp"),
        Signature("PatternColumn", "trunc({0}, {1})", ("date", "any_unit"), "date"),
    ]  # fmt: skip


_LETTERS = tuple("yMdHmsSahkKDEGQqLuXxZOzVFYwenpBcWANr")
_USUAL = (
    *("yyyy", "MM", "dd", "HH", "mm", "ss", "yy", "M", "d", "H", "MMM", "SSS", "EEE", "h", "a", "D", "Q", "XXX"),
    *("VV", "z"),
)


def _time_pattern(random: Random) -> str:
    parts = []
    for _ in range(random.randrange(1, 5)):
        letter = random.choice(_USUAL) if random.random() < 0.85 else random.choice(_LETTERS) * random.randrange(1, 6)
        parts.append(letter)
        parts.append(random.choice(("-", "/", " ", ":", "", ".", "'T'", "''", "[", "]", ",")))
    return _quoted("".join(parts))


def _times() -> list[Signature]:
    pattern = Made(_time_pattern)
    return [
        *(Signature("AnyTimeText", "date_format({0}, {1})", (kind, pattern), "string") for kind in _DATED),
        *(Signature("AnyTimeText", "date_format({0}, {1})", (kind, pattern)) for kind in ("clock_change", "far_date")),
        Signature("AnyTimeRead", "to_timestamp(date_format({0}, {1}), {1})", ("timestamp", pattern)),
        Signature("AnyTimeRead", "to_timestamp({0}, {1})", ("date_string", pattern), "timestamp"),
        Signature("AnyTimeRead", "to_date({0}, {1})", ("date_string", pattern), "date"),
        Signature("AnyTimeRead", "try_to_timestamp({0}, {1})", ("date_string", pattern), "timestamp"),
        Signature("AnyTimeRead", "unix_timestamp({0}, {1})", ("date_string", pattern), "bigint"),
        Signature("AnyTimeText", "from_unixtime({0}, {1})", ("bigint", pattern), "string"),
    ]


_FIELD_TYPES = (
    *("string", "int", "bigint", "double", "boolean", "date", "timestamp", "decimal(10,2)", "float", "tinyint"),
    *("binary", "smallint", "timestamp_ntz", "decimal(38,18)"),
)


def _json_type(random: Random, depth: int) -> str:
    kind = random.random()
    if not depth or kind < 0.6:
        return random.choice(_FIELD_TYPES)
    if kind < 0.75:
        return f"array<{_json_type(random, depth - 1)}>"
    if kind < 0.85:
        return f"map<string,{_json_type(random, depth - 1)}>"
    return f"struct<{random.choice('abc')}:{_json_type(random, depth - 1)},d:{_json_type(random, depth - 1)}>"


def _json_schema(random: Random) -> str:
    names = random.sample(("a", "b", "A", "c", "k", "_corrupt_record"), random.randrange(1, 4))
    if "a" in names and "A" in names:
        names.remove("A")
    return _quoted(", ".join(f"{name} {'string' if name[0] == '_' else _json_type(random, 2)}" for name in names))


def _csv_schema(random: Random) -> str:
    return _quoted(", ".join(f"{name} {random.choice(_FIELD_TYPES)}" for name in "abc"[: random.randrange(1, 4)]))


def _records() -> list[Signature]:
    schema, row = Made(_json_schema), Made(_csv_schema)
    rows = [Signature("AnyJson", "from_json({0}, {1})", (kind, schema)) for kind in ("json", "odd_json", "json_value")]
    rows += [
        Signature("AnyJson", "to_json(from_json({0}, {1}))", (kind, schema), "string") for kind in ("json", "odd_json")
    ]
    rows += [
        Signature("AnyJson", "to_json(struct({0}, {1}))", (left, right), "string")
        for left in (
            _STRUCTS,
            _MAP,
            _OTHER_MAP,
            _DOUBLES,
            "array<timestamp>",
            "array<date>",
            "map<string,struct<a:int,b:string>>",
        )
        for right in ("double", "timestamp", "string", "binary", "float", "decimal(38,0)")
    ]
    return [
        *rows,
        Signature("AnyCsv", "from_csv({0}, {1})", ("csv", row)),
        Signature("AnyCsv", "to_csv(from_csv({0}, {1}))", ("csv", row), "string"),
        Signature("AnyCsv", "to_csv(struct({0}, {1}, {2}))", ("string", "timestamp", "double"), "string"),
        Signature("AnyCsv", "to_csv(struct({0}, {1}, {2}))", ("decimal(38,18)", "date", "binary"), "string"),
        Signature("AnyCsv", "to_csv(struct({0}, {1}))", ("array<int>", "string"), "string"),
    ]


def _errors() -> list[Signature]:
    """Calls that fail for some rows, so that it shows which arguments are computed, and in which order."""
    kinds = (*_NUMBERS, *_DATED, "string", "boolean", "binary", _INTS, _STRINGS, _MAP, _STRUCT)
    raising = "if({0}, {1}, cast(raise_error('no') as KIND))"
    rows = [Signature("AnyError", raising.replace("KIND", kind), ("boolean", kind), kind) for kind in kinds]
    rows += [
        Signature("AnyError", "if({0}, {1}, element_at(array({1}), 2))", ("boolean", kind), kind) for kind in kinds
    ]
    return rows


def _mixed() -> list[Signature]:
    """Operators on two types, which Spark brings to one."""
    rows = []
    for left in _NUMBERS:
        for right in _NUMBERS:
            for name, symbol in (
                ("+", "AnyPlus"),
                ("-", "AnyMinus"),
                ("*", "AnyTimes"),
                ("/", "AnyQuotient"),
                ("%", "AnyRest"),
            ):
                rows.append(Signature(symbol, f"({{0}} {name} {{1}})", (left, right)))
            rows.append(Signature("AnyComparison", "({0} < {1})", (left, right), "boolean"))
            rows.append(Signature("AnyComparison", "({0} <=> {1})", (left, right), "boolean"))
            rows.append(Signature("AnyChoice", "greatest({0}, {1})", (left, right)))
            rows.append(Signature("AnyChoice", "coalesce({0}, {1})", (left, right)))
            if not {left, right} & {"float", "double"}:
                rows.append(Signature("AnyDiv", "({0} div {1})", (left, right)))
            rows.append(Signature("AnyDiv", "pmod({0}, {1})", (left, right)))
    for number in ("int", "bigint", "double", "decimal(5,2)", "date", "timestamp", "boolean"):
        for text in _TEXTS:
            rows.append(Signature("AnyComparison", "({0} = {1})", (number, text), "boolean"))
            rows.append(Signature("AnyComparison", "({0} < {1})", (text, number), "boolean"))
            rows.append(Signature("AnyComparison", "({0} in ({1}, {2}))", (text, number, text), "boolean"))
    rows += [Signature("AnyComparison", "({0} < {1})", (left, right), "boolean") for left in _DATED for right in _DATED]
    rows += [Signature("AnyPlus", "({0} + {1})", (number, "number_string")) for number in ("int", "double", "bigint")]
    return rows


KINDS = {
    "pattern": "string", "like_pattern": "string", "time_pattern": "string", "json_path": "string", "format": "string",
    "url_part": "string", "any_zone": "string", "charset": "string", "any_unit": "string",
}  # fmt: skip

VALUES = {
    "pattern": [
        *("a", "[a-c]+", "\\d+", "(\\w+)@(\\w+)", "(?i)ABC", "x*", "(a)(b)?", "a{2,3}", "(", "[", "*", "a++", "\\", ""),
        *("\\p{Lu}", "^$", "b$", "(?<n>a)", "[a-z&&[^b]]", "\\Q.\\E", "|", "(?:a|b)+?", "\\bb", "é", ".", "\\."),
    ],
    "like_pattern": ["%", "_", "a%", "%b_", "\\%", "a\\", "#%", "", "%é%", "😀_", "\\a", "a#_", "##", "%%", "_%_"],
    "time_pattern": [
        *(
            "yyyy-MM-dd",
            "yyyy",
            "HH:mm",
            "yyyy-MM-dd HH:mm:ss",
            "E",
            "q",
            "bad pattern",
            "",
            "dd/MM/yy",
            "D",
            "Y",
            "''",
        ),
        *("yyyy-MM-dd'T'HH:mm:ss.SSS", "[yyyy]", "SSSSSS", "VV", "yyyyyyyy"),
    ],
    "json_path": [
        *("$", "$.a", "$.a.b", "$[0]", "$[*]", "$.*", "$['a']", "", "a", "$.", "$[", "$..a", "$.a[*].b", "$[-1]"),
    ],
    "format": [
        *("%s", "%s %s", "%2$d", "%5s|", "%%", "%n", "%q", "%-5s|%05d", "%", "%3$s", "%S", "%x", "%1$s %1$s", "%b %c"),
    ],
    "url_part": ["HOST", "PATH", "QUERY", "REF", "host", "", "X", "FILE", "PROTOCOL", "USERINFO", "AUTHORITY"],
    "any_zone": [
        *("UTC", "Asia/Kolkata", "+01:00", "-8", "GMT+3", "PST", "Nowhere/City", "", "+19:00", "Z", "UTC+01:30"),
        *("EST5EDT", "utc", "+7:5", "America/New_York "),
    ],
    "charset": ["UTF-8", "utf-8", "UTF-16", "ISO-8859-1", "US-ASCII", "x", "", "UTF-32", "UTF-16BE", "utf-16le"],
    "any_unit": [
        *("YEAR", "yy", "QUARTER", "month", "MM", "WEEK", "DAY", "dd", "HOUR", "MINUTE", "SECOND", "MILLISECOND"),
        *("MICROSECOND", "", "x", "Year "),
    ],
}

SIGNATURES = [*_casts(), *_lambdas(), *_patterns(), *_times(), *_records(), *_errors(), *_mixed()]
