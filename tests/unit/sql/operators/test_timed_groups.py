from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests import sql_kit as kit

import snapline as sl
from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.sql.operators.timed_groups import TimedGroups
from snapline.testing import OperatorHarness

SCHEMA = pa.schema([("window", kit.WINDOW), ("user", pa.string())])
GROUPS = ("window", "user")


def groups(*, is_final: bool) -> OperatorHarness:
    job = sl.Job("groups")
    rows = job.source(sl.sources.Iterator([], schema=SCHEMA), uid="rows")
    layout = KeyLayout(SCHEMA, GROUPS)
    keyed = rows.apply(AddKeys(layout), schema=layout.schema(SCHEMA)).key_by(*layout.key_columns)
    counts = {"n": Aggregate(AggregateKind.COUNT)}
    operator = TimedGroups(layout.schema(SCHEMA), GROUPS, counts, time="window", is_final=is_final, before=True)
    return OperatorHarness.of(keyed.apply(operator, "groups", schema=operator.output_schema))


def batch(*rows: tuple[int, str | None]) -> pa.RecordBatch:
    windows = [{"start": kit.second(start), "end": kit.second(start + 10)} for start, _ in rows]
    given = pa.RecordBatch.from_pylist(
        [{"window": window, "user": user} for window, (_, user) in zip(windows, rows, strict=True)], schema=SCHEMA
    )
    return KeyLayout(SCHEMA, GROUPS).with_keys(given)


def ms(second: float) -> int:
    return int(kit.second(second).timestamp() * 1000)


def shown(harness: OperatorHarness) -> list[tuple[Any, ...]]:
    return sorted((row["user"] or "", row["n"]) for row in harness.rows())


def test_a_group_is_emitted_when_its_window_is_over_and_not_before() -> None:
    with groups(is_final=True) as harness:
        harness.process(batch((0, "ann"), (0, "ann"), (0, None), (10, "ann")))
        harness.watermark(ms(10) - 2)
        assert shown(harness) == []
        harness.watermark(ms(10) - 1)
        assert shown(harness) == [("", 1), ("ann", 2)]
        harness.watermark(ms(20))
        assert shown(harness) == [("ann", 1)]


def test_a_row_of_a_window_that_is_over_is_late_also_after_a_restart() -> None:
    with groups(is_final=True) as harness:
        harness.process(batch((0, "ann"), (10, "bob")))
        harness.watermark(ms(10))
        harness.restart()
        harness.process(batch((0, "ann"), (10, "bob")))
        assert harness.operator.late_rows == 1
        harness.end()
        assert ("bob", 2) in shown(harness)


def test_changes_come_at_once_and_the_end_of_a_window_adds_none() -> None:
    with groups(is_final=False) as harness:
        harness.process(batch((0, "ann")))
        harness.process(batch((0, "ann")))
        assert [row["__change"] for row in harness.rows()] == [0, 1, 2]
        harness.watermark(ms(30))
        assert harness.rows() == []
        harness.process(batch((0, "ann")))
        assert harness.operator.late_rows == 1
