"""Accumulators of folds and of whole groups: what they keep, and for how long."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.aggregate_runs import results
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.group_functions import Percentages
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.retracting_aggregate import RetractingAggregate

BY = pa.struct([("_0", pa.string()), ("_1", pa.int64())])


def by(value: str | None, number: int) -> dict[str, Any]:
    return {"_0": value, "_1": number}


def test_the_row_with_the_greatest_value_goes_and_comes() -> None:
    batches: list[list[Any]] = [
        [by("a", 1), by("b", 5)],
        [[by("b", 5)]],
        [by(None, 9)],
        [[by(None, 9)]],
        [[by("a", 1)]],
    ]
    assert results(Aggregate(Kind.MAX_BY, "v"), BY, batches) == ["b", "a", None, "a", None]


def test_only_one_row_is_kept_of_rows_that_are_never_taken_back() -> None:
    schema = pa.schema([("g", pa.string()), ("v", BY)])
    operator = RetractingAggregate(schema, ["g"], {"r": Aggregate(Kind.MIN_BY, "v")}, before=True)
    with running(operator, [KeyLayout(schema, ["g"])]) as one:
        for number in (5, 3, 9):
            one.process(batch_of(schema, [("x", by(f"n{number}", number))]))
        assert list(one.result) == [("x", "n3")]
        assert one.stored_entries() == {"groups": 1, "r/min_by/row": 1}


def test_values_of_groups_that_are_gone_are_gone_too() -> None:
    schema = with_change(pa.schema([("g", pa.string()), ("v", pa.int64())]))
    spec = Aggregate(Kind.PERCENTILE, "v", percentages=Percentages((0.5,)))
    operator = RetractingAggregate(schema, ["g"], {"r": spec}, before=True)
    with running(operator, [KeyLayout(schema, ["g"])]) as one:
        one.process(batch_of(schema, [("x", 1, 0), ("x", 1, 0), ("x", 4, 0)]))
        assert list(one.result) == [("x", 1.0)]
        one.process(batch_of(schema, [("x", 1, 3), ("x", 4, 3), ("x", 1, 3)]))
        assert one.stored_entries() == {}


@pytest.mark.parametrize("kind", [Kind.SKEWNESS, Kind.BIT_XOR, Kind.REGR_SXX])
def test_batches_may_be_cut_anywhere(kind: Kind) -> None:
    values = [3, 1, 4, 1, 5]
    whole = results(Aggregate(kind, "v"), pa.int64(), [values])[-1]
    assert results(Aggregate(kind, "v"), pa.int64(), [[value] for value in values])[-1] == pytest.approx(whole)
