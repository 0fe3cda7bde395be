"""Sums in limbs: exact beyond 64 bits, and back again."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapline.operators.changes import exact_sums
from snapline.operators.changes.group_changes import GroupChanges

ENDS = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**32, 2**63 - 1]
WIDE = pa.decimal128(38, 3)
DIGITS = Context(prec=60)


def total(values: pa.Array, weights: list[int], result: pa.DataType) -> tuple[Any, bool]:
    keys: Any = [None]
    changes = GroupChanges(keys, np.zeros(len(values), dtype=np.int64), np.array(weights, dtype=np.int64))
    limbs = [np.zeros(1, dtype=np.int64) for _ in range(exact_sums.limb_count(values.type))]
    for number in range(len(values)):
        # One by one, so that carries go through state.
        limbs = exact_sums.added(limbs, values.slice(number, 1), changes.take(np.array([number])))
    whole = [np.zeros(1, dtype=np.int64) for _ in limbs]
    assert [limb.tolist() for limb in exact_sums.added(whole, values, changes)] == [limb.tolist() for limb in limbs]
    sums, overflows = exact_sums.sums(limbs, result)
    return sums[0].as_py(), bool(overflows[0])


numbers = st.lists(st.tuples(st.sampled_from(ENDS), st.sampled_from([1, -1])), min_size=1, max_size=12)


@given(numbers)
def test_whole_numbers_wrap_around_and_say_so(made: list[tuple[int, int]]) -> None:
    exact = sum(value * weight for value, weight in made)
    found = total(pa.array([value for value, _ in made]), [weight for _, weight in made], pa.int64())
    assert found == ((exact + 2**63) % 2**64 - 2**63, not -(2**63) <= exact < 2**63)


@given(numbers)
def test_decimals_are_null_where_they_do_not_fit(made: list[tuple[int, int]]) -> None:
    scaled = [(value * 5_421_010_862_427_522_170, weight) for value, weight in made]
    exact = sum(value * weight for value, weight in scaled)
    array = pa.array([Decimal(value).scaleb(-3, DIGITS) for value, _ in scaled], WIDE)
    found, overflows = total(array, [weight for _, weight in scaled], WIDE)
    assert overflows == (abs(exact) >= 10**38)
    assert found == (None if overflows else Decimal(exact).scaleb(-3, DIGITS))


def test_short_decimals_have_short_sums() -> None:
    kind = pa.decimal128(18, 2)
    assert exact_sums.limb_count(kind) == 2
    most = pa.array([Decimal("9999999999999999.99")] * 20, kind)
    assert total(most, [1] * 20, pa.decimal128(28, 2)) == (Decimal("199999999999999999.80"), False)
    assert total(most, [1] * 20, kind) == (None, True)
    assert total(most, [-1] * 20, pa.decimal128(28, 2)) == (Decimal("-199999999999999999.80"), False)


@pytest.mark.parametrize(("kind", "value"), [(pa.int8(), -128), (pa.int32(), 2**31 - 1), (pa.bool_(), True)])
def test_narrow_numbers_need_one_limb(kind: pa.DataType, value: Any) -> None:
    assert exact_sums.limb_count(kind) == 1
    assert total(pa.array([value] * 3, kind), [1, 1, -1], pa.int64()) == (int(value), False)


def test_a_narrow_result_may_overflow() -> None:
    assert total(pa.array([100, 100], pa.int8()), [1, 1], pa.int8())[1]


def test_sums_as_floats() -> None:
    limbs = [np.array([5]), np.array([-1])]
    assert exact_sums.floats(limbs).tolist() == [5.0 - 2.0**32]
    assert exact_sums.floats([np.array([125])], scale=2).tolist() == [1.25]
