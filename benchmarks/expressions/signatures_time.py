"""Dates, timestamps, intervals, time zones and patterns."""

from __future__ import annotations

from benchmarks.expressions.signatures import Choice, Signature

KINDS = {"day_name": "string", "zone": "string", "unit": "string", "part": "int"}

VALUES = {
    "day_name": ["MO", "tuesday", "We", "THU", "xx", "sa", "Sun", "fr", "", "FRIDAY "],
    "zone": [
        "UTC",
        "Asia/Seoul",
        "+08:00",
        "GMT+1",
        "America/Los_Angeles",
        "Europe/Berlin",
        "-03:30",
        "Z",
        "+5:3",
        "EST",
    ],
    "unit": [
        "YEAR",
        "yyyy",
        "quarter",
        "MON",
        "mm",
        "week",
        "day",
        "DD",
        "hour",
        "Minute",
        "second",
        "millisecond",
        "x",
    ],
    "part": [0, 1, 2, 12, 13, 28, 29, 31, 59, 60, 1970, 2024, 9999, -1],
}

_DATED = ("date", "timestamp", "timestamp_ntz")
_TIMED = ("timestamp", "timestamp_ntz")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_DAY_TIME, _YEAR_MONTH = "interval day to second", "interval year to month"

_PATTERNS = Choice(
    *("'yyyy-MM-dd'", "'yyyy-MM-dd HH:mm:ss'", "'yyyy-MM-dd HH:mm:ss.SSS'", "'yyyyMMdd'", "'HH:mm'", "'hh:mm a'"),
    *("'MMM d, yyyy'", "'dd/MM/yy'", "'D'", "'yyyy-MM-dd\\'T\\'HH:mm:ssXXX'", "'H:m:s'", "'k K h'", "'MMMM'", "'G y'"),
    *("'yyyy-MM-dd[ HH:mm:ss]'", "'Y'", "'foo'", "'L LL LLL'", "'x Z O'", "'SSSSSS'", "'yyyyyy'", "'VV'"),
)
_WRITTEN = Choice(*_PATTERNS.texts, "'E EEEE'", "'Q QQQ QQQQ'", "'XXXXX'", "'ZZZZ'", "'F'")


def _fields() -> list[Signature]:
    functions = {
        "Year": "year", "Quarter": "quarter", "Month": "month", "DayOfMonth": "day", "DayOfWeek": "dayofweek",
        "WeekDay": "weekday", "DayOfYear": "dayofyear", "WeekOfYear": "weekofyear",
    }  # fmt: skip
    rows = [Signature(name, f"{text}({{0}})", (kind,), "int") for name, text in functions.items() for kind in _DATED]
    rows += [Signature("YearOfWeek", "extract(yearofweek from {0})", (kind,), "int") for kind in _DATED]
    rows += [
        Signature(name, f"{name.lower()}({{0}})", (kind,), "int")
        for name in ("Hour", "Minute", "Second")
        for kind in _TIMED
    ]
    rows += [Signature("SecondWithFraction", "extract(second from {0})", (kind,)) for kind in _TIMED]
    rows += [Signature(name, f"{name.lower()}({{0}})", ("date",), "string") for name in ("MonthName", "DayName")]
    rows += [
        Signature(f"ExtractANSIInterval{part}", f"date_part('{part.lower()}', {{0}})", (_DAY_TIME,))
        for part in ("Days", "Hours", "Minutes", "Seconds")
    ]
    rows += [
        Signature(f"ExtractANSIInterval{part}", f"date_part('{part.lower()}', {{0}})", (_YEAR_MONTH,))
        for part in ("Years", "Months")
    ]
    return rows


def _arithmetic() -> list[Signature]:
    rows = [
        Signature("LastDay", "last_day({0})", ("date",), "date"),
        Signature("NextDay", "next_day({0}, {1})", ("date", "day_name"), "date"),
        Signature("NextDay", "next_day({0}, 'fri')", ("date",), "date"),
        Signature("AddMonths", "add_months({0}, {1})", ("date", "small"), "date"),
        Signature("AddMonths", "add_months({0}, {1})", ("date", "part"), "date"),
        Signature("MonthsBetween", "months_between({0}, {1})", ("timestamp", "timestamp"), "double"),
        Signature("MonthsBetween", "months_between({0}, {1}, false)", ("date", "date"), "double"),
        Signature("DateAdd", "date_add({0}, {1})", ("date", "small"), "date"),
        Signature("DateSub", "date_sub({0}, {1})", ("date", "part"), "date"),
        Signature("DateDiff", "datediff({0}, {1})", ("date", "date"), "int"),
        Signature("SubtractDates", "({0} - {1})", ("date", "date")),
        Signature("TruncDate", "trunc({0}, {1})", ("date", "unit"), "date"),
        Signature("TruncDate", "trunc({0}, 'MM')", ("date",), "date"),
        Signature("DateAddYMInterval", "({0} + {1})", ("date", _YEAR_MONTH), "date"),
        Signature("TimestampAddInterval", "({0} + {1})", ("date", _DAY_TIME), "timestamp"),
        Signature("SubtractTimestamps", "({0} - {1})", ("timestamp", "timestamp"), _DAY_TIME),
        Signature("SubtractTimestamps", "({0} - {1})", ("timestamp_ntz", "timestamp_ntz"), _DAY_TIME),
        Signature("DateAddInterval", "({0} + make_interval(0, {1}, 0, {2}))", ("date", "small", "small"), "date"),
    ]
    for kind in _TIMED:
        rows += [
            Signature("TruncTimestamp", "date_trunc({1}, {0})", (kind, "unit")),
            Signature("TruncTimestamp", "date_trunc('day', {0})", (kind,)),
            Signature("TimestampAddInterval", "({0} + {1})", (kind, _DAY_TIME), kind),
            Signature("TimestampAddInterval", "({0} - {1})", (kind, _DAY_TIME), kind),
            Signature("TimestampAddYMInterval", "({0} + {1})", (kind, _YEAR_MONTH), kind),
            Signature(
                "TimestampAddInterval", "({0} + make_interval(0, {1}, 0, {2}, 5))", (kind, "small", "small"), kind
            ),
        ]
        for unit in _UNITS:
            rows.append(Signature("TimestampAdd", f"timestampadd({unit}, {{1}}, {{0}})", (kind, "small"), kind))
            rows.append(Signature("TimestampDiff", f"timestampdiff({unit}, {{0}}, {{1}})", (kind, kind), "bigint"))
    return rows


def _intervals() -> list[Signature]:
    rows = [
        Signature("MakeYMInterval", "make_ym_interval({0}, {1})", ("small", "part"), _YEAR_MONTH),
        Signature("MakeDTInterval", "make_dt_interval({0}, {1}, {2})", ("small", "part", "small"), _DAY_TIME),
    ]
    for part in ("Years", "Months", "Days", "Hours", "Minutes", "Seconds"):
        interval = "make_interval({0}, {1}, 0, {2}, {3}, {4}, 7.5)"
        for changed in (interval, f"({interval} * {{4}})", f"({interval} / {{4}})", f"(- {interval})"):
            sql = f"extract({part.lower()} from {changed})"
            rows.append(Signature(f"ExtractInterval{part}", sql, ("small", "part", "small", "part", "small")))
    for kind, short in ((_DAY_TIME, "DT"), (_YEAR_MONTH, "YM")):
        for factor in ("small", "small_double", "decimal(5,2)"):
            rows.append(Signature(f"Multiply{short}Interval", "({0} * {1})", (kind, factor)))
            rows.append(Signature(f"Divide{short}Interval", "({0} / {1})", (kind, factor)))
        rows.append(Signature("Add", "({0} + {1})", (kind, kind)))
        rows.append(Signature("Subtract", "({0} - {1})", (kind, kind)))
        rows.append(Signature("UnaryMinus", "(- {0})", (kind,)))
    return rows


def _conversions() -> list[Signature]:
    rows = [
        Signature("UnixSeconds", "unix_seconds({0})", ("timestamp",), "bigint"),
        Signature("UnixMillis", "unix_millis({0})", ("timestamp",), "bigint"),
        Signature("UnixMicros", "unix_micros({0})", ("timestamp",), "bigint"),
        Signature("UnixDate", "unix_date({0})", ("date",), "int"),
        Signature("DateFromUnixDate", "date_from_unix_date({0})", ("part",), "date"),
        Signature("SecondsToTimestamp", "timestamp_seconds({0})", ("part",), "timestamp"),
        Signature("SecondsToTimestamp", "timestamp_seconds({0})", ("small_double",), "timestamp"),
        Signature("SecondsToTimestamp", "timestamp_seconds({0})", ("decimal(20,5)",)),
        Signature("SecondsToTimestamp", "timestamp_seconds({0})", ("decimal(38,18)",)),
        Signature("SecondsToTimestamp", "timestamp_seconds({0})", ("bigint",)),
        Signature("MillisToTimestamp", "timestamp_millis({0})", ("part",), "timestamp"),
        Signature("MillisToTimestamp", "timestamp_millis({0})", ("bigint",)),
        Signature("MicrosToTimestamp", "timestamp_micros({0})", ("part",), "timestamp"),
        Signature("FromUTCTimestamp", "from_utc_timestamp({0}, {1})", ("timestamp", "zone"), "timestamp"),
        Signature("FromUTCTimestamp", "from_utc_timestamp({0}, 'Europe/Paris')", ("timestamp",), "timestamp"),
        Signature("ToUTCTimestamp", "to_utc_timestamp({0}, {1})", ("timestamp", "zone"), "timestamp"),
        Signature("ToUTCTimestamp", "to_utc_timestamp({0}, 'America/New_York')", ("timestamp",), "timestamp"),
        Signature("ConvertTimezone", "convert_timezone({1}, {2}, {0})", ("timestamp_ntz", "zone", "zone")),
        Signature("MakeDate", "make_date({0}, {1}, {2})", ("part", "part", "part"), "date"),
        Signature("MakeTimestamp", "make_timestamp({0}, {1}, {2}, {3}, {4}, 7.5)", ("part",) * 5, "timestamp"),
        Signature("MakeTimestamp", "make_timestamp_ntz(2024, {0}, {1}, {2}, 30, {3})", ("part",) * 4),
        Signature("MakeTimestamp", "try_make_timestamp(2024, {0}, {1}, {2}, 30, {3})", ("part",) * 4, "timestamp"),
        Signature("MakeTimestamp", "make_timestamp(2026, 3, 29, 2, {0}, 0, {1})", ("part", "zone")),
    ]
    rows += [Signature("DateFormatClass", "date_format({0}, {1})", (kind, _WRITTEN), "string") for kind in _DATED]
    rows += [
        Signature("FromUnixTime", "from_unixtime({0}, {1})", ("int", _WRITTEN), "string"),
        Signature("GetTimestamp", "to_timestamp({0}, {1})", ("date_string", _PATTERNS), "timestamp"),
        Signature("GetTimestamp", "try_to_timestamp({0}, {1})", ("date_string", _PATTERNS), "timestamp"),
        Signature("GetTimestamp", "to_timestamp_ntz({0}, {1})", ("date_string", _PATTERNS)),
        Signature("GetTimestamp", "to_date({0}, {1})", ("date_string", _PATTERNS), "date"),
        Signature("UnixTimestamp", "unix_timestamp({0}, {1})", ("date_string", _PATTERNS), "bigint"),
        Signature("ToUnixTimestamp", "to_unix_timestamp({0}, {1})", ("date_string", _PATTERNS), "bigint"),
    ]
    rows += [Signature("UnixTimestamp", "unix_timestamp({0})", (kind,), "bigint") for kind in _DATED]
    return rows


SIGNATURES = [*_fields(), *_arithmetic(), *_intervals(), *_conversions()]
