"""Arithmetic, comparisons, logic, conditionals, casts, mathematics; and the edge values of most types."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

from benchmarks.expressions.signatures import Choice, Signature

KINDS = {"small": "int", "small_double": "double", "number_string": "string", "date_string": "string", "word": "string"}

_DAY_US = 86_400_000_000

VALUES = {
    "boolean": [True, False],
    "tinyint": [0, 1, -1, 7, 127, -128],
    "smallint": [0, 1, -1, 300, 32767, -32768],
    "int": [0, 1, -1, 2, 10, 1000, -37, 65536, 2**31 - 1, -(2**31)],
    "bigint": [0, 1, -1, 3, 1000, 2**31, -(2**31) - 1, 2**53 + 1, 10**18, 2**63 - 1, -(2**63)],
    "float": [0.0, -0.0, 1.0, -1.5, 0.1, 3.4028235e38, 1.4e-45, 1e10, 123456.79, math.nan, math.inf, -math.inf],
    "double": [
        *(0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 0.1, 1e-3, 9.999e-4, 1e7, 12345678.9, 1e20, -1e-300, 4.9e-324),
        *(1.7976931348623157e308, 2147483647.5, 9.223372036854776e18, 2e-5, math.nan, math.inf, -math.inf),
    ],
    "decimal(5,2)": [Decimal(v) for v in ("0.00", "1.00", "-1.50", "2.50", "0.01", "999.99", "-999.99", "12.35")],
    "decimal(10,0)": [Decimal(v) for v in ("0", "1", "-1", "25", "9999999999", "-9999999999")],
    "decimal(20,5)": [
        Decimal(v) for v in ("0.00000", "1.50000", "-0.00001", "99999.12345", "999999999999999.99999", "-7.00000")
    ],
    "decimal(38,18)": [
        Decimal(v) for v in ("0E-18", "1.000000000000000000", "-3.141592653589793238", "9" * 20 + "." + "9" * 18)
    ],
    "decimal(38,0)": [Decimal(v) for v in ("0", "1", "-12", "9" * 38, "-" + "9" * 38, "1" + "0" * 20)],
    "string": [
        "",
        "a",
        "A",
        "abc",
        "ABC ",
        " b",
        "é",
        "ß",
        "😀",
        "z\u0301",
        "12",
        "true",
        "a,b,,c",
        "\t\n",
        "ab\u00e9cd",
    ],
    "binary": [b"", b"a", b"\x00", b"\xff\xfe", b"abc", b"\x80abc", "é".encode()],
    "date": [
        *(dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1969, 12, 31), dt.date(1970, 1, 1)),
        *(
            dt.date(2000, 2, 29),
            dt.date(2026, 3, 29),
            dt.date(2026, 11, 1),
            dt.date(2024, 12, 30),
            dt.date(9999, 12, 31),
        ),
    ],
    "timestamp": [
        *(0, -1, 1, 1_000_000, -1_500_000, 951_782_400_000_000, 1_774_746_000_000_000, 1_774_749_599_999_999),
        *(
            1_774_749_600_000_000,
            1_793_523_600_000_000,
            1_793_527_200_123_456,
            1_773_000_000_100_000,
            -12_219_292_800_000_000,
        ),
        *(-62_135_596_800_000_000 + 2 * _DAY_US, 253_402_300_799_999_999 - 2 * _DAY_US, 1_731_000_000_000_000),
    ],
    "timestamp_ntz": [
        *(0, -1, 1_500_000, 951_782_400_000_000, 1_774_749_600_000_000, 1_773_027_000_000_000, -12_219_292_800_000_000),
        *(-62_135_596_800_000_000, 253_402_300_799_999_999, 1_793_496_600_120_000),
    ],
    "interval day to second": [0, 1, -1_500_000, _DAY_US, -_DAY_US - 1, 90_061_001_000, 100 * _DAY_US],
    "interval year to month": [0, 1, -1, 12, -13, 25],
    "array<int>": [[], [1], [1, 2, 3], [None], [3, None, 1, 3], [2**31 - 1, -(2**31)]],
    "array<string>": [[], ["a"], ["b", "a", "b"], [None, ""], ["é", "B"]],
    "array<double>": [[], [math.nan], [0.0, -0.0], [None, 1.5], [math.inf, -1.0]],
    "array<array<int>>": [[], [[]], [[1], [2, None]], [None, [3]]],
    "map<string,int>": [[], [("a", 1)], [("b", 2), ("a", None)], [("", 0), ("é", -1)]],
    "map<int,string>": [[], [(1, "a")], [(2, None), (1, "x")]],
    "struct<a:int,b:string>": [{"a": 1, "b": "x"}, {"a": None, "b": ""}, {"a": -5, "b": None}, {"a": 1, "b": "y"}],
    "small": [0, 1, 2, 3, -1, -2, 5, 8, -3],
    "small_double": [0.0, 0.25, 1.0, -1.0, 2.0, 3.5, -0.5, 10.0, math.nan],
    "number_string": [
        *("", " ", "0", "12", " 12 ", "+3", "-4", "1.", ".5", ".", "1e3", "1E-2", "-0", "00012", "1.7", "-1.999", "1d"),
        *("1f", "0x1F", "Infinity", "-inf", "NaN", "nan", "127", "128", "-129", "32768", "2147483648", "-2147483648"),
        *("9223372036854775807", "9223372036854775808", "1e400", "99999999999999999999", "\t7\n", "\x017\x1f", "1 2"),
        *("abc", "1_000", "1,000", "12345678.125", "0.005", "999.995", "5e-324", "--1", "+", "1e", "\u00a05", "١"),
    ],
    "date_string": [
        *("", "1970-01-01", "2026-1-2", " 2026-01-02 ", "2026", "2026-02", "2026-02-30", "2024-02-29", "0001-01-01"),
        *("9999-12-31", "10000-01-01", "-0001-01-01", "+2026-01-01", "2026-01-01T", "2026-01-01 12", "2026-1-1 1:2:3"),
        *("2026-03-29 02:30:00", "2026-03-08 02:30:00", "2026-11-01 01:30:00", "2026-01-01 12:34:56.123456789"),
        *("2026-01-01T12:34:56Z", "2026-01-01 12:34:56+02:00", "2026-01-01 12:34:56 Europe/Berlin", "12:34:56", "T1:2"),
        *("2026-01-01 24:00:00", "2026-13-01", "1582-10-10", "epoch", "now", "2026-01-01 12:34:56 UTC+3", "2026/01/01"),
        *(
            "2026-01-01 12:34:56-08:30:10",
            "2026-01-01 12:34:56.1",
            "20260101",
            "99999-01-01",
            "2026-06-15 23:59:59.999999",
        ),
        *("1900-01-01 00:00:00", "0001-01-01 00:00:00", "2026-01-01 1:2", "2026-01-01 12:34:56.", "2026-01-01 a"),
    ],
    "word": ["true", "false", "t", "f", "Y", "n", "yes", "NO", "1", "0", " true ", "tru", "", "on", "TRUE\n", "2"],
}

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FLOATING = ("float", "double")
_DECIMALS = ("decimal(5,2)", "decimal(10,0)", "decimal(20,5)", "decimal(38,18)", "decimal(38,0)")
_NUMBERS = (*_INTEGERS, *_FLOATING, *_DECIMALS)
_ATOMS = (*_NUMBERS, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz")
_ORDERED = (*_ATOMS, "interval day to second", "interval year to month", "array<int>", "array<string>")
_ORDERED_ALL = (*_ORDERED, "array<double>", "array<array<int>>", "struct<a:int,b:string>")
_ANY = (*_ORDERED_ALL, "map<string,int>")

_OPERATORS = {"Add": "+", "Subtract": "-", "Multiply": "*", "Remainder": "%"}
_COMPARISONS = {"EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<="}
_COMPARISONS |= {"GreaterThan": ">", "GreaterThanOrEqual": ">="}


def _kept(kind: str) -> str:
    """The type of an operation on two of `kind`, if it is the same one."""
    return "" if kind.startswith("decimal") else kind


def _arithmetic() -> list[Signature]:
    rows = []
    for kind in _NUMBERS:
        for name, symbol in _OPERATORS.items():
            rows.append(Signature(name, f"({{0}} {symbol} {{1}})", (kind, kind), _kept(kind)))
        quotient = "double" if not kind.startswith("decimal") else ""
        rows.append(Signature("Divide", "({0} / {1})", (kind, kind), quotient))
        rows.append(Signature("Pmod", "pmod({0}, {1})", (kind, kind), _kept(kind)))
        rows.append(Signature("UnaryMinus", "(- {0})", (kind,), kind))
        rows.append(Signature("UnaryPositive", "(+ {0})", (kind,), kind))
        rows.append(Signature("Abs", "abs({0})", (kind,), kind))
        if kind not in _FLOATING:
            rows.append(Signature("IntegralDivide", "({0} div {1})", (kind, kind), "bigint"))
        for function, name in (("try_add", "Add"), ("try_subtract", "Subtract"), ("try_multiply", "Multiply")):
            rows.append(Signature(name, f"{function}({{0}}, {{1}})", (kind, kind), _kept(kind)))
        rows.append(Signature("Divide", "try_divide({0}, {1})", (kind, kind), quotient))
        rows.append(Signature("Remainder", "try_mod({0}, {1})", (kind, kind), _kept(kind)))
    for left in _DECIMALS:
        for right in (*_DECIMALS, "int", "bigint", "double"):
            for symbol, name in (
                ("+", "Add"),
                ("-", "Subtract"),
                ("*", "Multiply"),
                ("/", "Divide"),
                ("%", "Remainder"),
            ):
                rows.append(Signature(name, f"({{0}} {symbol} {{1}})", (left, right)))
    return rows


def _comparisons() -> list[Signature]:
    rows = [
        Signature(name, f"({{0}} {symbol} {{1}})", (kind, kind), "boolean")
        for kind in _ORDERED_ALL
        for name, symbol in _COMPARISONS.items()
    ]
    for kind in _ORDERED:
        rows.append(Signature("In", "({0} in ({1}, {2}))", (kind, kind, kind), "boolean"))
        rows.append(Signature("Between", "({0} between {1} and {2})", (kind, kind, kind), "boolean"))
        rows.append(Signature("Greatest", "greatest({0}, {1}, {2})", (kind, kind, kind), kind))
        rows.append(Signature("Least", "least({0}, {1})", (kind, kind), kind))
        rows.append(Signature("NullIf", "nullif({0}, {1})", (kind, kind), kind))
    rows.append(Signature("In", "({0} in (1, 2, null))", ("int",), "boolean"))
    rows.append(Signature("In", "({0} not in ('a', 'abc'))", ("string",), "boolean"))
    return rows


def _logic() -> list[Signature]:
    rows = [
        Signature("And", "({0} and {1})", ("boolean", "boolean"), "boolean"),
        Signature("Or", "({0} or {1})", ("boolean", "boolean"), "boolean"),
        Signature("Not", "(not {0})", ("boolean",), "boolean"),
        Signature("NaNvl", "nanvl({0}, {1})", ("double", "double"), "double"),
        Signature("IsNaN", "isnan({0})", ("double",), "boolean"),
        Signature("IsNaN", "isnan({0})", ("float",), "boolean"),
    ]
    for kind in _ANY:
        rows.append(Signature("IsNull", "({0} is null)", (kind,), "boolean"))
        rows.append(Signature("IsNotNull", "({0} is not null)", (kind,), "boolean"))
        rows.append(Signature("Coalesce", "coalesce({0}, {1})", (kind, kind), kind))
        rows.append(Signature("If", "if({0}, {1}, {2})", ("boolean", kind, kind), kind))
        rows.append(Signature("CaseWhen", "case when {0} then {1} end", ("boolean", kind), kind))
        rows.append(Signature("Nvl2", "nvl2({0}, {1}, {2})", ("string", kind, kind), kind))
        many = "case when {0} then {1} when {2} then {3} else {4} end"
        rows.append(Signature("CaseWhen", many, ("boolean", kind, "boolean", kind, kind), kind))
        if kind != "interval year to month":
            rows.append(Signature("TypeOf", "typeof({0})", (kind,), "string"))
    return rows


def _casts() -> list[Signature]:
    pairs = [(source, target) for source in _NUMBERS for target in (*_NUMBERS, "string", "boolean")]
    pairs += [("number_string", target) for target in _NUMBERS] + [("word", "boolean")]
    pairs += [("date_string", target) for target in ("date", "timestamp", "timestamp_ntz")] * 3
    pairs += [("boolean", target) for target in (*_NUMBERS, "string")]
    dated = ("date", "timestamp", "timestamp_ntz")
    pairs += [(source, target) for source in dated for target in (*dated, "string")] * 2
    pairs += [("timestamp", target) for target in (*_INTEGERS, "double", "decimal(20,5)")]
    pairs += [(source, "timestamp") for source in (*_INTEGERS, "double", "decimal(20,5)")]
    pairs += [("string", "binary"), ("binary", "string"), ("int", "binary"), ("bigint", "binary")]
    rows = [Signature("Cast", f"cast({{0}} as {target})", (source,), target) for source, target in pairs]
    tried = [(source, target) for source, target in pairs if target != "binary" or source == "string"]
    rows += [Signature("Cast", f"try_cast({{0}} as {target})", (source,), target) for source, target in tried]
    nested = ("array<int>", "array<string>", "array<double>", "array<array<int>>", "map<string,int>", "map<int,string>")
    rows += [
        Signature("Cast", "cast({0} as string)", (source,), "string") for source in (*nested, "struct<a:int,b:string>")
    ]
    rows += [
        Signature("Cast", "cast({0} as array<string>)", ("array<int>",), "array<string>"),
        Signature("Cast", "cast({0} as array<int>)", ("array<string>",), "array<int>"),
        Signature("Cast", "cast({0} as array<int>)", ("array<double>",), "array<int>"),
        Signature("Cast", "cast({0} as map<string,bigint>)", ("map<string,int>",)),
        Signature("Cast", "cast({0} as struct<x:bigint,y:string>)", ("struct<a:int,b:string>",)),
    ]
    return rows


_DOUBLE_FUNCTIONS = {
    "Sqrt": "sqrt", "Cbrt": "cbrt", "Exp": "exp", "Expm1": "expm1", "Log": "ln", "Log10": "log10", "Log2": "log2",
    "Log1p": "log1p", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Cot": "cot", "Sec": "sec", "Csc": "csc",
    "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh",
    "Acosh": "acosh", "Atanh": "atanh", "ToDegrees": "degrees", "ToRadians": "radians", "Signum": "signum",
    "Rint": "rint",
}  # fmt: skip


def _mathematics() -> list[Signature]:
    rows = []
    for name, function in _DOUBLE_FUNCTIONS.items():
        exact = name in ("Sqrt", "Signum", "Rint", "ToDegrees", "ToRadians")
        rows += [
            Signature(name, f"{function}({{0}})", (kind,), "double", exact=exact) for kind in ("double", "small_double")
        ]
    for function, name in (("pow", "Pow"), ("atan2", "Atan2"), ("hypot", "Hypot"), ("log", "Logarithm")):
        rows += [
            Signature(name, f"{function}({{0}}, {{1}})", (kind, "small_double"), "double", exact=False)
            for kind in ("double", "small_double")
        ]
    places = Choice("0", "1", "2", "5", "-1", "-3", "10", "20", "-10")
    for kind in _NUMBERS:
        for function, name in (("round", "Round"), ("bround", "BRound")):
            rows.append(Signature(name, f"{function}({{0}}, {{1}})", (kind, places), _kept(kind)))
            rows.append(Signature(name, f"{function}({{0}})", (kind,), _kept(kind)))
        rows.append(Signature("Ceil", "ceil({0})", (kind,), "bigint" if not kind.startswith("decimal") else ""))
        rows.append(Signature("Floor", "floor({0})", (kind,), "bigint" if not kind.startswith("decimal") else ""))
        rows.append(Signature("RoundCeil", "ceil({0}, {1})", (kind, places)))
        rows.append(Signature("RoundFloor", "floor({0}, {1})", (kind, places)))
        rows.append(Signature("Signum", "sign({0})", (kind,), "double"))
    for kind in (*_INTEGERS, "boolean"):
        rows.append(Signature("BitwiseCount", "bit_count({0})", (kind,), "int"))
    for kind in _INTEGERS:
        for symbol, name in (("&", "BitwiseAnd"), ("|", "BitwiseOr"), ("^", "BitwiseXor")):
            rows.append(Signature(name, f"({{0}} {symbol} {{1}})", (kind, kind), kind))
        rows.append(Signature("BitwiseNot", "(~ {0})", (kind,), kind))
        rows.append(Signature("BitwiseGet", "bit_get({0}, {1})", (kind, "small"), "tinyint"))
    for kind in ("int", "bigint"):
        for function, name in (
            ("shiftleft", "ShiftLeft"), ("shiftright", "ShiftRight"), ("shiftrightunsigned", "ShiftRightUnsigned")
        ):  # fmt: skip
            rows += [Signature(name, f"{function}({{0}}, {{1}})", (kind, by), kind) for by in ("small", "int")]
    base = Choice("2", "8", "10", "16", "36", "-10", "-16", "1", "37")
    return [
        *rows,
        Signature("Hex", "hex({0})", ("bigint",), "string"),
        Signature("Hex", "hex({0})", ("string",), "string"),
        Signature("Hex", "hex({0})", ("binary",), "string"),
        Signature("Unhex", "unhex({0})", ("number_string",), "binary"),
        Signature("Unhex", "unhex({0})", ("string",), "binary"),
        Signature("Bin", "bin({0})", ("bigint",), "string"),
        Signature("Conv", "conv({0}, {1}, {2})", ("number_string", base, base), "string"),
        Signature("Factorial", "factorial({0})", ("small",), "bigint"),
        Signature("Factorial", "factorial({0})", ("int",), "bigint"),
        Signature(
            "WidthBucket",
            "width_bucket({0}, {1}, {2}, {3})",
            ("small_double", "small_double", "small_double", "small"),
            "bigint",
        ),
        Signature("Pi", "pi()", (), "double"),
        Signature("EulerNumber", "e()", (), "double"),
        Signature("RaiseError", "if({0}, {1}, raise_error('no'))", ("boolean", "int"), "int"),
        Signature("RaiseError", "assert_true({0})", ("boolean",)),
    ]


SIGNATURES = [*_arithmetic(), *_comparisons(), *_logic(), *_casts(), *_mathematics()]
