"""Functions under their other names, and calls that leave out arguments."""

from __future__ import annotations

from benchmarks.expressions.signatures import Choice, Signature

_DATED = ("date", "timestamp", "timestamp_ntz")


def _texts() -> list[Signature]:
    rows = [
        Signature(name, f"{function}({{0}})", (kind,), "string")
        for name, function in (("Lower", "lcase"), ("Upper", "ucase"), ("StringTrimBoth", "btrim"))
        for kind in ("string", "text")
    ]
    rows += [
        Signature("Length", f"{function}({{0}})", ("string",), "int")
        for function in ("len", "char_length", "character_length")
    ]
    return [
        *rows,
        Signature("StringTrimBoth", "btrim({0}, {1})", ("text", "string"), "string"),
        Signature("Chr", "char({0})", ("int",), "string"),
        Signature("StringLocate", "position({1}, {0})", ("text", "string"), "int"),
        Signature("StringLocate", "position({1} in {0})", ("text", "string"), "int"),
        Signature("FormatString", "printf('%s-%s', {0}, {1})", ("text", "bigint"), "string"),
        Signature("Substring", "substr({0}, {1}, {2})", ("text", "position", "small"), "string"),
        Signature("ToCharacter", "to_varchar({0}, {1})", ("decimal(5,2)", Choice("'999.99'", "'S000.00'"))),
        Signature("RLike", "({0} regexp {1})", ("text", Choice("'^a'", "'[a-z]+$'")), "boolean"),
        Signature("RLike", "regexp_like({0}, {1})", ("text", Choice("'b|c'", r"'\\d'")), "boolean"),
        Signature("RegExpReplace", "regexp_replace({0}, 'a', 'X', {1})", ("text", Choice("1", "2", "5")), "string"),
        Signature("StringReplace", "replace({0}, {1})", ("text", "string"), "string"),
        Signature("Levenshtein", "levenshtein({0}, {1})", ("word", "word"), "int"),
        Signature("Collation", "collation({0})", ("string",), "string"),
        Signature("Collate", "collate({0}, 'UTF8_BINARY')", ("string",), "string"),
        Signature("LikeAny", "({0} like any ('a%', '%b', {1}))", ("text", "string"), "boolean"),
        Signature("LikeAll", "({0} like all ('%a%', {1}))", ("text", "string"), "boolean"),
        Signature("NotLikeAny", "({0} not like any ('a%', {1}))", ("text", "string"), "boolean"),
        Signature("NotLikeAll", "({0} not like all ('a%', {1}))", ("text", "string"), "boolean"),
        Signature("LikeAny", "({0} like any ('a%', '_b%'))", ("text",), "boolean"),
        Signature("ValidateUTF8", "validate_utf8({0})", ("string",), "string"),
        Signature("TryValidateUTF8", "try_validate_utf8({0})", ("string",), "string"),
        Signature("Sha1", "sha({0})", ("binary",), "string"),
        Signature("Decode", "decode({0}, {1}, 'one', {2}, 'two', 'other')", ("int", "int", "int"), "string"),
        Signature("Decode", "decode({0}, 'a', 1, null, 2)", ("string",), "int"),
    ]


def _numbers() -> list[Signature]:
    return [
        Signature("Remainder", "mod({0}, {1})", ("bigint", "bigint"), "bigint"),
        Signature("UnaryMinus", "negative({0})", ("bigint",), "bigint"),
        Signature("UnaryPositive", "positive({0})", ("double",), "double"),
        Signature("Pow", "power({0}, {1})", ("small_double", "small_double"), "double", exact=False),
        Signature("Ceil", "ceiling({0})", ("double",), "bigint"),
        Signature("BitwiseGet", "getbit({0}, {1})", ("bigint", "small"), "tinyint"),
        Signature("Uniform", "typeof(uniform(1, 9, 3))", (), "string"),
        Signature("NullIfZero", "nullifzero({0})", ("double",), "double"),
        Signature("ZeroIfNull", "zeroifnull({0})", ("int",), "int"),
        Signature("Nvl", "nvl({0}, {1})", ("bigint", "int"), "bigint"),
        Signature("Nvl", "ifnull({0}, {1})", ("double", "float"), "double"),
        Signature("EqualNull", "equal_null({0}, {1})", ("double", "double"), "boolean"),
        Signature("CaseWhen", "case {0} when {1} then 'x' when 0 then 'y' else 'z' end", ("int", "int"), "string"),
        Signature("IsNull", "isnull({0})", ("double",), "boolean"),
        Signature("IsNotNull", "isnotnull({0})", ("double",), "boolean"),
        Signature("Not", "(! {0})", ("boolean",), "boolean"),
        Signature("EqualTo", "({0} == {1})", ("double", "float"), "boolean"),
        Signature("ShiftLeft", "({0} << {1})", ("int", "small"), "int"),
        Signature("ShiftRight", "({0} >> {1})", ("bigint", "small"), "bigint"),
        Signature("ShiftRightUnsigned", "({0} >>> {1})", ("int", "small"), "int"),
        Signature("IntegralDivide", "div({0}, {1})", ("int", "int"), "bigint"),
    ]


def _casts() -> list[Signature]:
    targets = ("tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean")
    rows = [Signature("Cast", f"{target}({{0}})", ("number_string",), target) for target in targets]
    rows += [
        Signature("Cast", "decimal({0})", ("number_string",), "decimal(10,0)"),
        Signature("Cast", "date({0})", ("date_string",), "date"),
        Signature("Cast", "timestamp({0})", ("date_string",), "timestamp"),
        Signature("Cast", "binary({0})", ("string",), "binary"),
    ]
    return rows


def _times() -> list[Signature]:
    rows = [Signature("DayOfMonth", "dayofmonth({0})", (kind,), "int") for kind in _DATED]
    rows += [
        Signature("DatePart", f"{function}('{part}', {{0}})", (kind,))
        for function in ("datepart", "date_part")
        for part in ("year", "QUARTER", "week", "doy", "dow", "dow_iso", "seconds", "yearofweek")
        for kind in _DATED
        if kind != "date" or part != "seconds"
    ]
    patterns = Choice("'yyyy-MM-dd'", "'yyyy-MM-dd HH:mm:ss'", "'yyyy'")
    fields = ("part",) * 4
    return [
        *rows,
        Signature("DateAdd", "dateadd({0}, {1})", ("date", "small"), "date"),
        Signature("TimestampAdd", "dateadd(MONTH, {1}, {0})", ("timestamp", "small"), "timestamp"),
        Signature("DateDiff", "date_diff({0}, {1})", ("date", "date"), "int"),
        Signature("TimestampDiff", "datediff(HOUR, {0}, {1})", ("timestamp", "timestamp"), "bigint"),
        Signature("MakeTimestamp", "make_timestamp_ltz({0}, {1}, {2}, {3}, 30, 7.25)", fields, "timestamp"),
        Signature("MakeTimestamp", "try_make_timestamp_ltz(2024, {0}, {1}, {2}, 30, {3})", fields, "timestamp"),
        Signature("MakeTimestamp", "try_make_timestamp_ntz(2024, {0}, {1}, {2}, 30, {3})", fields, "timestamp_ntz"),
        Signature("MakeTimestamp", "make_timestamp({0}, {1}, {2}, 3, 4, {3}, 'Asia/Seoul')", fields, "timestamp"),
        Signature("GetTimestamp", "to_timestamp_ltz({0}, {1})", ("date_string", patterns), "timestamp"),
        Signature("GetTimestamp", "try_to_date({0}, {1})", ("date_string", patterns), "date"),
        Signature("Cast", "to_date({0})", ("date_string",), "date"),
        Signature("Cast", "to_timestamp({0})", ("date_string",), "timestamp"),
        Signature("Cast", "to_timestamp_ntz({0})", ("date_string",), "timestamp_ntz"),
        Signature("Cast", "try_to_timestamp({0})", ("date_string",), "timestamp"),
        Signature("FromUnixTime", "from_unixtime({0})", ("int",), "string"),
        Signature("UnixTimestamp", "unix_timestamp({0})", ("date_string",), "bigint"),
        Signature("ConvertTimezone", "convert_timezone('Asia/Tokyo', {0})", ("timestamp_ntz",), "timestamp_ntz"),
        Signature("Extract", "extract(month from {0})", ("date",), "int"),
        Signature("MonthsBetween", "months_between({0}, {1})", ("date", "timestamp"), "double"),
        Signature("CurrentTimeZone", "current_timezone()", (), "string"),
        Signature("CurrentDate", "(current_date() >= {0})", ("date",), "boolean"),
        Signature("CurrentDate", "(curdate() > {0})", ("date",), "boolean"),
        Signature("CurrentTimestamp", "(current_timestamp() > {0})", ("timestamp",), "boolean"),
        Signature("Now", "(now() > {0})", ("timestamp",), "boolean"),
        Signature("LocalTimestamp", "(localtimestamp() > {0})", ("timestamp_ntz",), "boolean"),
    ]


def _others() -> list[Signature]:
    algorithm = Choice("'SHA-224'", "'SHA-256'", "'SHA-384'", "'SHA-512'", "'SHA-1'", "'MD5'")
    rows = [
        Signature("SessionValue", sql, (), "string")
        for sql in (
            *(
                "current_catalog()",
                "current_database()",
                "current_schema()",
                "current_user()",
                "session_user()",
                "user()",
            ),
            *("current_path()", "version()"),
        )
    ]
    return [
        *rows,
        Signature("BitmapBitPosition", "bitmap_bit_position({0})", ("bigint",), "bigint"),
        Signature("BitmapBucketNumber", "bitmap_bucket_number({0})", ("bigint",), "bigint"),
        Signature("BitmapCount", "bitmap_count({0})", ("binary",), "bigint"),
        Signature("Base32", "to_base32({0})", ("binary",), "string"),
        Signature("Hmac", "hmac({0}, {1})", ("binary", "binary"), "binary"),
        Signature("Hmac", "hmac({0}, {1}, {2})", ("binary", "binary", algorithm), "binary"),
        Signature("RandStr", "length(randstr(7))", (), "int"),
    ]


def _intervals() -> list[Signature]:
    """Calendar intervals, as texts: Arrow has no exact counterpart of their columns."""
    made = "make_interval({0}, {1}, {2}, {3})"
    fields = ("small", "part", "small", "part", "small_double")
    return [
        Signature("MakeInterval", f"cast({made} as string)", fields[:4], "string"),
        Signature("MakeInterval", "cast(make_interval(0, {0}, 0, {1}, {2}, 1, 2.5) as string)", fields[:3], "string"),
        Signature("TryMakeInterval", "cast(try_make_interval({0}, {1}, {2}, {3}) as string)", fields[:4], "string"),
        Signature("TryMakeInterval", "cast(try_make_interval({0}, {0}, {0}, {0}) as string)", ("int",), "string"),
        Signature("MultiplyInterval", f"cast({made} * {{4}} as string)", fields, "string"),
        Signature("DivideInterval", f"cast({made} / {{4}} as string)", fields, "string"),
        Signature("StringSplitSQL", "split_part({0}, {1}, {2})", ("text", "string", Choice("1", "2", "-1")), "string"),
    ]


def _random() -> list[Signature]:
    """Only what is the same for every seed can be compared."""
    return [
        Signature("Rand", "(rand() < 1 and random() >= 0)", (), "boolean"),
        Signature("Randn", "(randn(3) is not null)", (), "boolean"),
        Signature("Uuid", "length(uuid())", (), "int"),
        Signature("Uniform", "(uniform(1, 9) between 1 and 9)", (), "boolean"),
        Signature("Shuffle", "array_sort(shuffle({0}))", ("array<int>",), "array<int>"),
        Signature("MonotonicallyIncreasingID", "(monotonically_increasing_id() >= 0)", (), "boolean"),
    ]


SIGNATURES = [*_texts(), *_numbers(), *_casts(), *_times(), *_intervals(), *_others(), *_random()]
