from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from snapline.sql.expressions import unscaled


def test_digits_of_slices_with_nulls_and_back() -> None:
    type = pa.decimal128(38, 2)
    given = [Decimal("1.00"), None, Decimal("-" + "9" * 36 + ".99"), Decimal("-0.01")]
    array = pa.array([Decimal("7.00"), *given], type)[1:]
    digits = unscaled.digits(array)
    assert digits.tolist() == [100, 0, -int("9" * 38), -1]
    there = np.array([True, False, True, True])
    assert unscaled.decimals(digits, there, type).to_pylist() == given


def test_small_digits_stay_machine_integers() -> None:
    digits = unscaled.digits(pa.array([Decimal("1.25"), Decimal("-1.25")], pa.decimal128(10, 2)))
    assert digits.dtype == np.int64
    assert unscaled.shifted(digits, 5).tolist() == [12500000, -12500000]
    assert unscaled.shifted(digits, 20).tolist() == [125 * 10**20, -125 * 10**20]


def test_halves_are_rounded_away_from_zero() -> None:
    digits = np.array([125, -125, 124, -126])
    assert unscaled.shifted(digits, -1).tolist() == [13, -13, 12, -13]
    assert unscaled.shifted(digits.astype(object), -1).tolist() == [13, -13, 12, -13]


def test_remainders_have_the_sign_of_the_dividend() -> None:
    assert unscaled.remainder(np.array([-7, 7]), np.array([3, -3])).tolist() == [-1, 1]
    assert unscaled.remainder(np.array([-(10**30)], object), np.array([7])).tolist() == [-(10**30 % 7)]


def test_excess_digits() -> None:
    assert unscaled.exceeds(np.array([999, 1000, -1000]), 3).tolist() == [False, True, True]
    assert unscaled.exceeds(np.array([10**38, 10**38 - 1], object), 38).tolist() == [True, False]
