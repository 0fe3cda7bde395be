"""Window functions in order: when rows come out, and what is kept. Their values are in the property tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests import sql_kit as kit
from tests.unit.operators.changes.running_changes import RunningChanges, batch_of, running

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.over_frames import Frame
from snapline.operators.changes.over_functions import OverFunction, OverKind
from snapline.operators.changes.rank_order import SortColumn
from snapline.sql.operators.over_in_order import OverInOrder, runs_in_order

SCHEMA = pa.schema([("g", pa.string()), ("t", kit.TIME), ("v", pa.int64())])
INT = pa.int64()


def total(lower: Any, upper: Any = 0, *, by_rows: bool = False, kind: str = "sum") -> OverFunction:
    frame = Frame(by_rows, lower, upper)
    return OverFunction(OverKind.AGGREGATE, INT, frame, aggregate=Aggregate(AggregateKind(kind), "v"))


def operator(*functions: OverFunction, time: str | None = "t") -> tuple[OverInOrder, list[KeyLayout]]:
    layout = KeyLayout(SCHEMA, ["g"])
    named = {f"r{number}": function for number, function in enumerate(functions)}
    order = () if time is None else [SortColumn("t")]
    return OverInOrder(layout.schema(SCHEMA), layout.key_columns, order, named, time=time), [layout]


def shown(one: RunningChanges) -> list[tuple[Any, ...]]:
    found = [(row["g"], row["v"], row["r0"]) for batch in one.emitted for row in batch.to_pylist()]
    one.emitted.clear()
    return found


def ms(second: float) -> int:
    return int(kit.second(second).timestamp() * 1000)


def test_rows_come_out_in_order_of_time_when_the_watermark_has_passed() -> None:
    with running(*operator(total(None))) as one:
        one.applies = False
        one.process(batch_of(SCHEMA, [("a", kit.second(3), 4), ("b", kit.second(2), 9), ("a", kit.second(1), 2)]))
        assert shown(one) == []
        one.watermark(ms(2))
        assert shown(one) == [("a", 2, 2), ("b", 9, 9)]
        one.process(batch_of(SCHEMA, [("a", kit.second(2), 100), ("a", kit.second(2.5), 1), ("a", None, 100)]))
        assert one.late_rows == 2
        one.watermark(ms(5))
        assert shown(one) == [("a", 1, 3), ("a", 4, 7)]


def test_of_rows_before_only_what_is_needed_is_kept() -> None:
    given = [("a", kit.second(n), n) for n in range(20)]
    for function, kept in (
        (total(None), 0),
        (total(-3, by_rows=True), 3),
        (total(-4_000_000), 5),
        (OverFunction(OverKind.LAG, INT, column="v", number=6), 6),
        (OverFunction(OverKind.ROW_NUMBER, INT), 0),
    ):
        with running(*operator(function)) as one:
            one.process(batch_of(SCHEMA, given))
            one.watermark(ms(30))
            assert one.stored_entries().get("history", 0) == kept
            assert "waiting" not in one.stored_entries()


def test_rows_in_order_of_arrival_come_out_at_once() -> None:
    with running(*operator(total(None, by_rows=True), time=None)) as one:
        one.applies = False
        one.process(batch_of(SCHEMA, [("a", None, 4), ("b", None, 1), ("a", None, 2)]))
        assert shown(one) == [("a", 4, 4), ("b", 1, 1), ("a", 2, 6)]
        one.restart(2)
        one.process(batch_of(SCHEMA, [("a", None, 1)]))
        assert shown(one) == [("a", 1, 7)]


def test_what_needs_later_or_all_rows_does_not_run_in_order() -> None:
    assert runs_in_order(total(None), SCHEMA)
    assert runs_in_order(total(-3, -1, by_rows=True, kind="collect_list"), SCHEMA)
    assert not runs_in_order(total(None, kind="collect_list"), SCHEMA)
    assert not runs_in_order(total(None, 1, by_rows=True), SCHEMA)
    assert not runs_in_order(total(None, None), SCHEMA)
    assert not runs_in_order(OverFunction(OverKind.LAG, INT, column="v", number=-1), SCHEMA)
    assert not runs_in_order(OverFunction(OverKind.LAG, INT, column="v", ignore_nulls=True), SCHEMA)
    assert not runs_in_order(OverFunction(OverKind.NTILE, INT), SCHEMA)
    assert not runs_in_order(OverFunction(OverKind.NTH_VALUE, INT, Frame(True, None, 0), "v"), SCHEMA)


def test_ranks_go_on_where_only_some_of_equal_rows_are_kept() -> None:
    dense, rank = OverFunction(OverKind.DENSE_RANK, INT), OverFunction(OverKind.RANK, INT)
    with running(*operator(dense, rank, OverFunction(OverKind.LAG, INT, column="v", number=2))) as one:
        one.applies = False
        for second, count in ((1, 4), (2, 1), (3, 3), (4, 2)):
            one.process(batch_of(SCHEMA, [("a", kit.second(second), n) for n in range(count)]))
            one.watermark(ms(second))
            one.restart(1)
        found = [(row["r0"], row["r1"]) for batch in one.emitted for row in batch.to_pylist()]
        assert found == [(1, 1)] * 4 + [(2, 5)] + [(3, 6)] * 3 + [(4, 9)] * 2
