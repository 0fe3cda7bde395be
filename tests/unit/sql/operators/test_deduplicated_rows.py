from __future__ import annotations

import pyarrow as pa

import snapline as sl
from snapline.sql.operators.deduplicated_rows import KeepFirstWithin
from snapline.testing import OperatorHarness

SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.string()), ("at", pa.timestamp("us", "UTC"))])


def harness(delay_ms: int) -> OperatorHarness:
    rows = sl.Job("first").source(sl.sources.Iterator([], schema=SCHEMA), uid="rows").key_by("key")
    return OperatorHarness.of(rows.apply(KeepFirstWithin("at", delay_ms), "first", schema=SCHEMA))


def batch(*rows: tuple[int, str, int]) -> pa.RecordBatch:
    given = [{"id": number, "key": key, "at": second * 10**6} for number, key, second in rows]
    return pa.RecordBatch.from_pylist(given, schema=SCHEMA)


def ids(run: OperatorHarness) -> list[int]:
    return [row["id"] for row in run.rows()]


def test_the_first_row_of_a_key_passes_and_the_key_is_forgotten_after_the_delay() -> None:
    with harness(5000) as run:
        run.process(batch((1, "a", 1), (2, "a", 1), (3, "b", 2)))
        run.process(batch((4, "a", 2)))
        assert ids(run) == [1, 3]
        run.watermark(6000)
        run.process(batch((5, "a", 8), (6, "b", 8)))
        assert ids(run) == [5], "b is remembered until 6.999 s"


def test_rows_at_or_below_the_watermark_are_late() -> None:
    with harness(5000) as run:
        run.watermark(2000)
        run.process(batch((1, "a", 2), (2, "b", 3)))
        assert ids(run) == [2]
        assert run.operator.late_rows == 1


def test_keys_survive_a_restart() -> None:
    with harness(5000) as run:
        run.process(batch((1, "a", 1)))
        assert ids(run) == [1]
        run.restart()
        run.process(batch((2, "a", 1)))
        assert ids(run) == []
