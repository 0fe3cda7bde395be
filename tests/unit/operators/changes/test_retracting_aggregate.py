"""Aggregates of changes: kinds, order and upserts, which the model of the property tests does not see."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.running_changes import RunningChanges, batch_of, running

from snapline.errors import ConfigurationError
from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.retracting_aggregate import RetractingAggregate

PLAIN = pa.schema([("g", pa.string()), ("v", pa.int64())])
CHANGING = with_change(PLAIN)
COUNT = {"n": Aggregate(AggregateKind.COUNT)}
MAX = {"m": Aggregate(AggregateKind.MAX, "v")}


def rows_of(one: RunningChanges) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for batch in one.emitted for row in batch.to_pylist()]
    one.emitted.clear()
    return rows


def test_changes_have_images_of_before_and_come_after_them() -> None:
    operator = RetractingAggregate(CHANGING, ["g"], COUNT, before=True)
    assert operator.output_schema.names == ["g", "n", "__change"]
    with running(operator, [KeyLayout(CHANGING, ["g"])]) as one:
        one.applies = False
        one.process(batch_of(CHANGING, [("a", 1, 0), ("b", 1, 0)]))
        assert sorted(rows_of(one)) == [("a", 1, 0), ("b", 1, 0)]
        one.process(batch_of(CHANGING, [("c", 1, 0), ("a", 2, 0), ("b", 1, 3)]))
        assert rows_of(one) == [("b", 1, 3), ("a", 1, 1), ("c", 1, 0), ("a", 2, 2)]
        one.process(batch_of(CHANGING, [("a", 2, 1), ("a", 3, 2)]))
        assert rows_of(one) == [], "no result has changed"


def test_upserts_say_every_time_what_a_group_has() -> None:
    with running(RetractingAggregate(CHANGING, ["g"], MAX, before=False), [KeyLayout(CHANGING, ["g"])]) as one:
        one.applies = False
        one.process(batch_of(CHANGING, [("a", 1, 0)]))
        one.process(batch_of(CHANGING, [("a", 1, 0)]))
        one.process(batch_of(CHANGING, [("a", 1, 3)]))
        assert rows_of(one) == [("a", 1, 0), ("a", 1, 2), ("a", 1, 2)]
        one.process(batch_of(CHANGING, [("a", 1, 3)]))
        ((g, _, kind),) = rows_of(one)
        assert (g, kind) == ("a", 3)


def test_a_row_that_goes_before_it_comes_leaves_nothing_behind() -> None:
    specs = {**COUNT, **MAX}
    with running(RetractingAggregate(CHANGING, ["g"], specs, before=True), [KeyLayout(CHANGING, ["g"])]) as one:
        one.process(batch_of(CHANGING, [("a", 7, 3)]))
        assert not one.result
        one.process(batch_of(CHANGING, [("a", 7, 0), ("a", 5, 0)]))
        assert one.result == {("a", 1, 5): 1}


def test_groups_of_floats_that_are_equal_are_shown_alike() -> None:
    schema = with_change(pa.schema([("g", pa.float64())]))
    with running(RetractingAggregate(schema, ["g"], COUNT, before=True), [KeyLayout(schema, ["g"])]) as one:
        one.process(batch_of(schema, [(-0.0, 0), (float("nan"), 0)]))
        one.process(batch_of(schema, [(0.0, 3), (-float("nan"), 3)]))
        assert not one.result


def test_distinct_rows_never_change() -> None:
    with running(RetractingAggregate(CHANGING, ["g"], {}, before=False), [KeyLayout(CHANGING, ["g"])]) as one:
        one.applies = False
        for kind in (0, 0, 3):
            one.process(batch_of(CHANGING, [("a", 1, kind)]))
        assert rows_of(one) == [("a", 0)]
        one.process(batch_of(CHANGING, [("a", 1, 1)]))
        assert rows_of(one) == [("a", 3)]


def test_the_result_of_no_rows_comes_once_and_from_one_subtask() -> None:
    operator = RetractingAggregate(PLAIN, [], COUNT, before=True, is_global=True)
    with running(operator, [KeyLayout(PLAIN, [])]) as one:
        one.restart(3)
        one.finish()
        one.restart(2)
        one.finish()
        assert one.result == {(0,): 1}


def test_a_global_aggregate_has_no_groups() -> None:
    with pytest.raises(ConfigurationError, match="a global aggregate has no groups; got g"):
        RetractingAggregate(PLAIN, ["g"], COUNT, before=True, is_global=True)
