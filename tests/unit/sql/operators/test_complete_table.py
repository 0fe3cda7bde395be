from __future__ import annotations

import pyarrow as pa

import snapline as sl
from snapline.operators.changes.changes import CHANGE, with_change
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.operators.changes.rank_order import SortColumn
from snapline.sql.operators.complete_table import CompleteTable, LatestRows
from snapline.testing import OperatorHarness

SCHEMA = with_change(pa.schema([("user", pa.string()), ("n", pa.int64())]))


def batch(*rows: tuple[str, int, int]) -> pa.RecordBatch:
    given = [{"user": user, "n": n, CHANGE: kind} for user, n, kind in rows]
    return pa.RecordBatch.from_pylist(given, schema=SCHEMA)


def table(limit: int | None = None) -> OperatorHarness:
    layout = KeyLayout(SCHEMA, [])
    rows = sl.Job("table").source(sl.sources.Iterator([], schema=SCHEMA), uid="rows")
    keyed = rows.apply(AddKeys(layout), schema=layout.schema(SCHEMA)).key_by(*layout.key_columns)
    operator = CompleteTable(layout.schema(SCHEMA), layout.key_columns, [SortColumn("n", descending=True)], limit=limit)
    return OperatorHarness.of(keyed.apply(operator, "table", schema=operator.output_schema))


def keyed(*rows: tuple[str, int, int]) -> pa.RecordBatch:
    return KeyLayout(SCHEMA, []).with_keys(batch(*rows))


def test_the_whole_result_comes_again_after_each_change_in_its_order() -> None:
    with table() as harness:
        harness.process(keyed(("ann", 1, 0), ("bob", 2, 0), ("bob", 2, 0)))
        harness.operator.prepare_snapshot(1)
        assert [(row["user"], row["n"]) for row in harness.rows()] == [("bob", 2), ("bob", 2), ("ann", 1)]
        harness.operator.prepare_snapshot(2)
        assert harness.rows() == [], "nothing has changed"
        harness.process(keyed(("bob", 2, 1), ("bob", 3, 2)))
        harness.end()
        assert [(row["user"], row["n"]) for row in harness.rows()] == [("bob", 3), ("bob", 2), ("ann", 1)]


def test_a_limit_takes_the_first_rows() -> None:
    with table(limit=1) as harness:
        harness.process(keyed(("ann", 1, 0), ("bob", 2, 0)))
        harness.end()
        assert [row["user"] for row in harness.rows()] == ["bob"]


def test_update_mode_shows_new_and_changed_rows_only() -> None:
    rows = sl.Job("latest").source(sl.sources.Iterator([], schema=SCHEMA), uid="rows")
    shown = pa.schema([("user", pa.string()), ("n", pa.int64())])
    with OperatorHarness.of(rows.apply(LatestRows(), schema=shown)) as harness:
        harness.process(batch(("ann", 1, 0), ("bob", 1, 1), ("bob", 2, 2), ("cid", 1, 3)))
        assert harness.rows() == [{"user": "ann", "n": 1}, {"user": "bob", "n": 2}]
