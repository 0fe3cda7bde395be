from __future__ import annotations

import pyarrow as pa
from tests import sql_kit as kit

import snapline as sl
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.operators.changes.rank_order import RankKind, SortColumn
from snapline.sql.operators.timed_ranks import TimedRanks
from snapline.testing import OperatorHarness

SCHEMA = pa.schema([("window", kit.WINDOW), ("user", pa.string()), ("price", pa.int64())])
LAYOUT = KeyLayout(SCHEMA, ["window"])


def ranks(limit: int = 1, kind: RankKind = RankKind.RANK) -> OperatorHarness:
    job = sl.Job("ranks")
    rows = job.source(sl.sources.Iterator([], schema=SCHEMA), uid="rows")
    keyed = rows.apply(AddKeys(LAYOUT), schema=LAYOUT.schema(SCHEMA)).key_by(*LAYOUT.key_columns)
    operator = TimedRanks(
        LAYOUT.schema(SCHEMA),
        LAYOUT.key_columns,
        [SortColumn("price", descending=True, nulls_first=False)],
        limit,
        kind,
        time="window",
        rank_column="rank",
        rank_type=pa.int32(),
    )
    return OperatorHarness.of(keyed.apply(operator, "ranks", schema=operator.output_schema))


def batch(*rows: tuple[int, str, int | None]) -> pa.RecordBatch:
    given = [
        {"window": {"start": kit.second(start), "end": kit.second(start + 10)}, "user": user, "price": price}
        for start, user, price in rows
    ]
    return LAYOUT.with_keys(pa.RecordBatch.from_pylist(given, schema=SCHEMA))


def ms(second: float) -> int:
    return int(kit.second(second).timestamp() * 1000)


def shown(harness: OperatorHarness) -> list[tuple[str, int]]:
    return sorted((row["user"], row["rank"]) for row in harness.rows())


def test_the_best_rows_come_once_when_their_window_is_over() -> None:
    with ranks() as harness:
        harness.process(batch((0, "ann", 3), (0, "bob", 5), (10, "cid", 1)))
        harness.process(batch((0, "dan", 5), (0, "eve", 4)))
        harness.watermark(ms(10) - 2)
        assert shown(harness) == []
        harness.watermark(ms(10) - 1)
        assert shown(harness) == [("bob", 1), ("dan", 1)]
        harness.watermark(ms(20))
        assert shown(harness) == [("cid", 1)]


def test_nothing_is_left_of_a_window_that_is_over_and_its_rows_are_late() -> None:
    with ranks() as harness:
        harness.process(batch((0, "ann", 3), (10, "bob", 5)))
        harness.watermark(ms(10))
        assert shown(harness) == [("ann", 1)]
        harness.restart()
        harness.process(batch((0, "cid", 9), (10, "dan", 4)))
        assert harness.operator.late_rows == 1
        harness.end()
        assert shown(harness) == [("bob", 1)]


def test_other_ranks_and_limits() -> None:
    with ranks(2, RankKind.ROW_NUMBER) as harness:
        harness.process(batch((0, "ann", 3), (0, "bob", None), (0, "cid", 3), (0, "dan", 1)))
        harness.end()
        assert shown(harness) == [("ann", 1), ("cid", 2)]
