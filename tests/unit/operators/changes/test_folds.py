"""Ranges of values folded in n log n steps give what one step after the other gives."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.folds import Fold, folded, folded_groups


def fold(kind: AggregateKind, type: pa.DataType) -> Fold:
    found = Aggregate(kind, "v").fold(pa.schema([("v", type)]))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(3))
def test_any_ranges_also_empty_ones(seed: int) -> None:
    random = Random(seed)
    values = [random.randrange(-(2**63), 2**63) for _ in range(50)]
    starts = np.array([random.randrange(51) for _ in range(40)])
    ends = np.array([random.randrange(int(start) - (start > 0), 51) for start in starts])
    summed = fold(AggregateKind.SUM, pa.int64())
    pieces = summed.pieces(pa.array(values), len(values))
    limbs = folded(summed.merged, pieces, starts, ends)
    wanted = [sum(values[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    assert [(int(high) << 32) + int(low) for low, high in zip(limbs[0], limbs[1], strict=True)] == wanted
    assert limbs[2].tolist() == [max(b - a, 0) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


def test_the_order_of_values_is_kept() -> None:
    def last(left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        return [np.where(right[0] > 0, right[0], left[0])]

    found = folded(last, [np.arange(1, 12)], np.array([0, 3, 2]), np.array([11, 6, 2]))
    assert found[0].tolist() == [11, 6, 0]


def test_a_range_does_not_depend_on_its_neighbours() -> None:
    total = fold(AggregateKind.SUM, pa.float64())
    values = [1e300, 0.1, 0.2, 0.3, float("inf"), float("nan")]
    pieces = total.pieces(pa.array(values), len(values))
    alone = folded(total.merged, [part[1:4] for part in pieces], np.array([0]), np.array([3]))
    among = folded(total.merged, pieces, np.array([1]), np.array([4]))
    assert [part.tolist() for part in alone] == [part.tolist() for part in among]


@pytest.mark.parametrize(
    ("kind", "type", "values", "wanted"),
    [
        (AggregateKind.AVG, pa.int64(), [1, 2, 6], 3.0),
        (AggregateKind.AVG, pa.decimal128(5, 2), [Decimal("1.00"), Decimal("2.50")], Decimal("1.750000")),
        (
            AggregateKind.SUM,
            pa.decimal128(30, 1),
            [Decimal("99999999999999999999.9")] * 2,
            Decimal("199999999999999999999.8"),
        ),
        (AggregateKind.VAR_POP, pa.float64(), [1.0, 2.0, 3.0, 6.0], 3.5),
        (AggregateKind.STDDEV_SAMP, pa.float64(), [1.0], None),
    ],
)
def test_accumulators_as_folds(kind: AggregateKind, type: pa.DataType, values: list[object], wanted: object) -> None:
    made = fold(kind, type)
    pieces = made.pieces(pa.array(values, type), len(values))
    found = made.results(folded_groups(made, pieces, np.zeros(len(values), dtype=np.int64), 2))
    assert found.to_pylist() == [wanted, None]


def test_what_needs_all_values_is_no_fold() -> None:
    schema = pa.schema([("v", pa.int64())])
    assert Aggregate(AggregateKind.COLLECT_LIST, "v").fold(schema) is None
    assert Aggregate(AggregateKind.MODE, "v").fold(schema) is None
