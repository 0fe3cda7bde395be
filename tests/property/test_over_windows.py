"""Window functions against plain Python: any changes, cut anywhere, with restores and rescales in between."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_changes_ranks import Place, groups_of
from tests.unit.operators.changes.running_changes import LiveRows, Row, all_gone, running

from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.group_functions import Percentages
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.over_changes import OverChanges
from snapline.operators.changes.over_frames import Frame
from snapline.operators.changes.over_functions import OverFunction, OverKind
from snapline.operators.changes.rank_order import SortColumn

EXAMPLES, EXAMPLES_ON_DISK = 15, 4

SCHEMA = pa.schema([("g", pa.string()), ("v", pa.int64()), ("s", pa.string()), ("id", pa.int64())])
G, V, S, ID = range(4)

rows = st.tuples(
    st.sampled_from(["a", None]), st.integers(0, 6) | st.none(), st.sampled_from(["", "x", None]), st.integers(0, 99)
)
steps = st.lists(st.tuples(st.integers(0, 3), rows, st.integers(0, 50)), max_size=6)
events = st.lists(st.one_of(steps, steps, steps, st.integers(1, 3)), max_size=10)
bounds = st.none() | st.integers(-3, 3)
frames = st.tuples(st.booleans(), bounds, bounds).filter(lambda f: f[1] is None or f[2] is None or f[1] <= f[2])

Model = Callable[[list[Row], int, list[int]], Any]
"""The result for a row, from the rows of its partition in order, its place, and the places in its frame."""


def in_frame(
    ordered: list[Row], at: int, frame: tuple[bool, Any, Any], order: list[tuple[int, bool, bool]]
) -> list[int]:
    by_rows, lower, upper = frame
    column, descending, nulls_first = order[0]
    found = []
    for place, row in enumerate(ordered):
        if by_rows:
            distance: Any = place - at
        else:
            mine, its = ordered[at][column], row[column]
            if (mine is None) != (its is None):
                distance = float("inf") if (its is None) != nulls_first else float("-inf")
            elif mine is None:
                distance = None
            else:
                distance = (its - mine) * (-1 if descending else 1)
        # Nulls are as far from each other as one likes.
        if distance is None or ((lower is None or distance >= lower) and (upper is None or distance <= upper)):
            found.append(place)
    return found


def or_none(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: function(values) if values else None


def of(column: int, function: Callable[[list[Any]], Any]) -> Model:
    return lambda rows, _, frame: function([rows[n][column] for n in frame if rows[n][column] is not None])


def lag(column: int, number: int, *, ignore_nulls: bool = False) -> Model:
    def result(rows: list[Row], at: int, _: list[int]) -> Any:
        if not ignore_nulls:
            return rows[at - number][column] if 0 <= at - number < len(rows) else rows[at][ID]
        near = rows[at - 1 :: -1] if number > 0 and at else rows[at + 1 :] if number < 0 else []
        values = [row[column] for row in near if row[column] is not None]
        return values[abs(number) - 1] if len(values) >= abs(number) else None

    return result


def nth(column: int, number: int, *, ignore_nulls: bool) -> Model:
    def result(rows: list[Row], _: int, frame: list[int]) -> Any:
        values = [rows[n][column] for n in frame if not ignore_nulls or rows[n][column] is not None]
        return values[number - 1] if len(values) >= number else None

    return result


INT = pa.int64()
AGGREGATES: dict[str, tuple[Aggregate, pa.DataType, Model]] = {
    "rows": (Aggregate(Kind.COUNT), INT, lambda _, __, frame: len(frame)),
    "sum": (Aggregate(Kind.SUM, "v"), INT, of(V, or_none(sum))),
    "min": (Aggregate(Kind.MIN, "v"), INT, of(V, or_none(min))),
    "max_s": (Aggregate(Kind.MAX, "s"), pa.string(), of(S, or_none(max))),
    "avg": (Aggregate(Kind.AVG, "v"), pa.float64(), of(V, or_none(lambda values: sum(values) / len(values)))),
    "first": (Aggregate(Kind.FIRST, "v", ignore_nulls=False), INT, nth(V, 1, ignore_nulls=False)),
    "last": (Aggregate(Kind.LAST, "v"), INT, of(V, or_none(lambda values: values[-1]))),
    "list": (Aggregate(Kind.COLLECT_LIST, "v"), pa.list_(INT), of(V, tuple)),
    "median": (
        Aggregate(Kind.PERCENTILE, "v", percentages=Percentages((0.5,))),
        pa.float64(),
        of(V, or_none(statistics.median)),
    ),
    "bits": (Aggregate(Kind.BIT_XOR, "id"), INT, of(ID, or_none(lambda values: _xor(values)))),
}


def _xor(values: list[int]) -> int:
    result = 0
    for value in values:
        result ^= value
    return result


OTHERS: dict[str, tuple[OverFunction, Model]] = {
    "row_number": (OverFunction(OverKind.ROW_NUMBER, INT), lambda _, at, __: at + 1),
    "lag": (OverFunction(OverKind.LAG, INT, column="v", default="id", number=2), lag(V, 2)),
    "lead": (OverFunction(OverKind.LAG, INT, column="v", default="id", number=-1), lag(V, -1)),
    "lag_value": (OverFunction(OverKind.LAG, INT, column="v", ignore_nulls=True), lag(V, 1, ignore_nulls=True)),
    "lead_value": (
        OverFunction(OverKind.LAG, INT, column="v", number=-2, ignore_nulls=True),
        lag(V, -2, ignore_nulls=True),
    ),
    "ntile": (OverFunction(OverKind.NTILE, INT, number=3), lambda rows, at, _: tile(len(rows), 3, at)),
}


def tile(size: int, parts: int, at: int) -> int:
    sizes = [size // parts + (number < size % parts) for number in range(parts)]
    number = 0
    while at >= sizes[number]:
        at -= sizes[number]
        number += 1
    return number + 1


windows = {"events": events, "frame": frames, "descending": st.booleans(), "nulls_first": st.booleans()}


@pytest.mark.parametrize("changing", [True, False])
@given(**windows)
@settings(max_examples=EXAMPLES)
def test_window_functions(changing: bool, **given: Any) -> None:
    check_window_functions(changing, "memory", **given)


@pytest.mark.slow
@given(**windows)
@settings(max_examples=EXAMPLES_ON_DISK)
def test_window_functions_on_disk(**given: Any) -> None:
    check_window_functions(True, "rocksdb", **given)


def check_window_functions(
    changing: bool, backend: str, events: list[Any], frame: tuple[bool, Any, Any], descending: bool, nulls_first: bool
) -> None:
    """Equal rows are one row for a window function, so `id` makes the order of each partition complete."""
    by_rows = frame[0]
    order = [(V, descending, nulls_first), *([(S, False, True), (ID, False, True)] if by_rows else [])]
    functions = {
        name: OverFunction(OverKind.AGGREGATE, kind, Frame(*frame), aggregate=aggregate)
        for name, (aggregate, kind, _) in AGGREGATES.items()
    }
    models = {name: model for name, (_, _, model) in AGGREGATES.items()}
    functions["nth"] = OverFunction(OverKind.NTH_VALUE, INT, Frame(*frame), "v", number=2)
    models["nth"] = nth(V, 2, ignore_nulls=False)
    functions["nth_value"] = OverFunction(OverKind.NTH_VALUE, INT, Frame(*frame), "v", number=2, ignore_nulls=True)
    models["nth_value"] = nth(V, 2, ignore_nulls=True)
    if by_rows:
        functions |= {name: function for name, (function, _) in OTHERS.items()}
        models |= {name: model for name, (_, model) in OTHERS.items()}
    schema = with_change(SCHEMA) if changing else SCHEMA
    layout = KeyLayout(schema, ["g"])
    by = [SortColumn(SCHEMA.names[column], *how) for column, *how in order]
    operator = OverChanges(layout.schema(schema), layout.key_columns, by, functions)
    live = LiveRows(schema)
    with running(operator, [layout], backend) as over:
        for event in events:
            if isinstance(event, int):
                over.restart(event)
                continue
            over.process(live.batch(event))
            wanted: Counter[Row] = Counter()
            for group in groups_of(live.rows).values():
                ordered = [place.row for place in sorted(Place(row, order) for row in group)]
                for at, row in enumerate(ordered):
                    places = in_frame(ordered, at, frame, order)
                    wanted[(*row, *(model(ordered, at, places) for model in models.values()))] += 1
            assert over.result == wanted
        if changing and backend == "memory":
            over.process(all_gone(live))
            assert not over.result
            assert over.stored_entries() == {}
