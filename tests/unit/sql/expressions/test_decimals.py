"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
from tests.expression_kit import applied, condition, values

D5_2, D38_0 = pa.decimal128(5, 2), pa.decimal128(38, 0)


def test_sums_and_products_have_the_precision_of_the_result() -> None:
    left = pa.array([Decimal("999.99"), Decimal("-1.50"), None], D5_2)
    right = pa.array([Decimal("0.01"), Decimal("2.50"), Decimal("1.00")], D5_2)
    total = applied("Add", pa.decimal128(6, 2), left, right, evalMode="ANSI")
    assert values(total, left, right) == [Decimal("1000.00"), Decimal("1.00"), None]
    product = applied("Multiply", pa.decimal128(11, 4), left, right, evalMode="ANSI")
    assert values(product, left, right) == [Decimal("9.9999"), Decimal("-3.7500"), None]


def test_quotients_are_rounded_half_up() -> None:
    left, right = pa.array([Decimal("10.00"), Decimal("-2.00")], D5_2), pa.array([Decimal("3.00")] * 2, D5_2)
    quotient = applied("Divide", pa.decimal128(13, 8), left, right, evalMode="ANSI")
    assert values(quotient, left, right) == [Decimal("3.33333333"), Decimal("-0.66666667")]


def test_what_does_not_fit_raises_or_is_null() -> None:
    largest, ten = pa.array([Decimal("9" * 38)], D38_0), pa.array([Decimal(10)], pa.decimal128(2, 0))
    ansi = applied("Multiply", D38_0, largest, ten, evalMode="ANSI")
    assert condition(ansi, largest, ten) == "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
    assert values(applied("Multiply", D38_0, largest, ten, evalMode="LEGACY"), largest, ten) == [None]


def test_division_by_zero() -> None:
    one, zero = pa.array([Decimal(1)], D38_0), pa.array([Decimal(0)], D38_0)
    ansi = applied("Divide", pa.decimal128(38, 6), one, zero, evalMode="ANSI")
    assert condition(ansi, one, zero) == "DIVIDE_BY_ZERO"
    assert values(applied("Remainder", D38_0, one, zero, evalMode="LEGACY"), one, zero) == [None]


def test_unscaled_digits_and_back() -> None:
    array = pa.array([Decimal("12.35"), None], D5_2)
    assert values(applied("UnscaledValue", pa.int64(), array), array) == [1235, None]
    digits = pa.array([1235, 100000], pa.int64())
    made = applied("MakeDecimal", D5_2, digits, nullOnOverflow=True)
    assert values(made, digits) == [Decimal("12.35"), None]


def test_opposites_have_34_digits() -> None:
    array = pa.array([Decimal("-12.5"), None], pa.decimal128(5, 1))
    assert values(applied("UnaryMinus", array.type, array), array) == [Decimal("12.5"), None]
    assert values(applied("Abs", array.type, array), array) == [Decimal("12.5"), None]
    largest = pa.array([Decimal("-" + "9" * 38)], D38_0)
    for kind in ("UnaryMinus", "Abs"):
        assert condition(applied(kind, D38_0, largest), largest) == "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION"


def test_the_lowest_long_has_an_opposite_as_a_decimal() -> None:
    lowest, one = pa.array([Decimal(-(2**63))], D38_0), pa.array([Decimal(-1)], D38_0)
    assert values(applied("UnaryMinus", D38_0, lowest), lowest) == [Decimal(2**63)]
    quotient = applied("IntegralDivide", pa.int64(), one, lowest, evalMode="ANSI")
    assert values(quotient, one, lowest) == [0]


def test_quotients_with_too_many_digits_are_an_error() -> None:
    dividends = pa.array([Decimal("9" * 38)], pa.decimal128(38, 0))
    divisors = pa.array([Decimal("-5.86689E-13")], pa.decimal128(38, 18))
    rest = applied("Remainder", pa.decimal128(38, 18), dividends, divisors, evalMode="LEGACY")
    assert condition(rest, dividends, divisors) == "ArithmeticException"


def test_whole_quotients_beyond_38_digits() -> None:
    dividends, divisors = pa.array([Decimal("9" * 38)], pa.decimal128(38, 0)), pa.array([Decimal("0.43")])
    legacy = applied("IntegralDivide", pa.int64(), dividends, divisors, evalMode="LEGACY")
    assert values(legacy, dividends, divisors) == [None]
    ansi = applied("IntegralDivide", pa.int64(), dividends, divisors, evalMode="ANSI")
    assert condition(ansi, dividends, divisors) == "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
