from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from tests import sql_kit as kit

from snapline.operators.changes.aggregate_specs import AggregateKind
from snapline.sql.operators.sliced_groups import SlicedGroups, SlicePart
from snapline.sql.operators.sql_projection import WindowShape
from snapline.sql.plans.common_tables import reference

SHAPE = WindowShape(6_000_000, 2_000_000, 1_000_000)
SCHEMA = pa.schema(
    [("user", pa.string()), ("window", kit.WINDOW), ("n", pa.int64()), ("low", pa.int64()), ("high", kit.TIME)]
)
Row = tuple[int, Any, str | None, int | None]


class Emitted:
    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.emit = self.batches.append


def sliced(*batches: list[Row]) -> list[dict[str, Any]]:
    values = [reference(kit.USER), reference(kit.AT), reference(kit.PRICE)]
    condition = kit.greater(reference(kit.PRICE), kit.literal(2))
    parts = [
        SlicePart(AggregateKind.COUNT, None, 3),
        SlicePart(AggregateKind.MIN, 2, None),
        SlicePart(AggregateKind.MAX, 1, None),
    ]
    operator = SlicedGroups([*values, condition], kit.EVENTS, [0, 1], 1, SHAPE, parts, SCHEMA)
    context: Any = Emitted()
    operator.open(context)
    fields = pa.schema([pa.field(each.name, each.type) for each in kit.EVENTS])
    for rows in batches:
        columns = list(zip(*rows, strict=True)) or [()] * len(fields)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
        operator.process(pa.RecordBatch.from_arrays(arrays, schema=fields), 0)
    return [row for batch in context.batches for row in batch.to_pylist()]


def test_rows_of_one_slice_are_added_up_and_come_once_for_each_of_its_windows() -> None:
    rows: list[Row] = [
        (1, kit.second(1), "a", 5),
        (2, kit.second(2.9), "a", 1),
        (3, kit.second(3), "a", None),
        (4, kit.second(2), None, 7),
        (5, None, "a", 1),
    ]
    found = sliced(rows, [])
    assert Counter((row["user"], (row["window"]["start"] - kit.START).total_seconds()) for row in found) == Counter(
        (user, start) for user, first in (("a", 1), ("a", 3), (None, 1)) for start in (first, first - 2, first - 4)
    )
    assert all((row["window"]["end"] - row["window"]["start"]).total_seconds() == 6 for row in found)
    slices = {(row["user"], row["n"], row["low"], row["high"]) for row in found}
    assert slices == {
        ("a", 1, 1, kit.second(2.9)),
        ("a", 0, None, kit.second(3)),
        (None, 1, 7, kit.second(2)),
    }


def test_nothing_comes_of_rows_without_time() -> None:
    assert sliced([(1, None, "a", 1)], []) == []
