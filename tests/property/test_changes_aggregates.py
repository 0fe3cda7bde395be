"""Aggregates of changes against plain Python: any changes, cut anywhere, with restores and rescales in between."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from math import isclose
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.changes.running_changes import LiveRows, Row, all_gone, given_on_disk_rarely, running

from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.retracting_aggregate import RetractingAggregate

BACKENDS = ("memory", pytest.param("rocksdb", marks=pytest.mark.slow))
EXAMPLES = 8

SCHEMA = pa.schema(
    [
        ("g", pa.string()),
        ("h", pa.decimal128(5, 1)),
        ("v", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(30, 2)),
        ("s", pa.string()),
        ("ok", pa.bool_()),
    ]
)
G, H, V, F, D, S, OK = range(7)

rows = st.tuples(
    st.sampled_from(["a", "", None]),
    st.sampled_from([Decimal("1.0"), None]),
    st.sampled_from([-(2**62), -1, 0, 1, 2**62, 7, None]),
    st.integers(-8, 8).map(lambda number: number / 4) | st.none(),
    st.sampled_from([Decimal("0.01"), Decimal("-12345678901234567890.12"), Decimal("99999999999999999999.99"), None]),
    st.sampled_from(["", "x", "yy", None]),
    st.booleans() | st.none(),
)
steps = st.lists(st.tuples(st.integers(0, 3), rows, st.integers(0, 50)), max_size=6)
events = st.lists(st.one_of(steps, steps, steps, st.integers(1, 3)), max_size=10)
"""Batches of steps, and restarts at a parallelism."""

Model = Callable[[list[Row]], Any]


def of(column: int, function: Callable[[list[Any]], Any], where: bool = False) -> Model:
    def result(group: list[Row]) -> Any:
        return function([row[column] for row in group if row[column] is not None and (not where or row[OK])])

    return result


def or_none(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: function(values) if values else None


def wrapped(values: list[int]) -> int:
    return (sum(values) + 2**63) % 2**64 - 2**63


def mean(values: list[Decimal]) -> Decimal:
    return (sum(values, Decimal(0)) / len(values)).quantize(Decimal("0.000001"), rounding=ROUND_HALF_UP)


def let_wrap(results: pa.Array, overflows: Any) -> pa.Array:
    return results


EXACT: dict[str, tuple[Aggregate, Model]] = {
    "rows": (Aggregate(Kind.COUNT), len),
    "count": (Aggregate(Kind.COUNT, "v", where="ok"), of(V, len, where=True)),
    "sum_v": (Aggregate(Kind.SUM, "v", overflow=let_wrap), of(V, or_none(wrapped))),
    "sum_f": (Aggregate(Kind.SUM, "f"), of(F, or_none(sum))),
    "sum_d": (Aggregate(Kind.SUM, "d", where="ok"), of(D, or_none(sum), where=True)),
    "avg_f": (Aggregate(Kind.AVG, "f"), of(F, or_none(lambda values: sum(values) / len(values)))),
    "avg_d": (Aggregate(Kind.AVG, "d"), of(D, or_none(mean))),
    "min_v": (Aggregate(Kind.MIN, "v"), of(V, or_none(min))),
    "max_f": (Aggregate(Kind.MAX, "f", where="ok"), of(F, or_none(max), where=True)),
    "max_d": (Aggregate(Kind.MAX, "d"), of(D, or_none(max))),
    "min_s": (Aggregate(Kind.MIN, "s"), of(S, or_none(min))),
    "max_ok": (Aggregate(Kind.MAX, "ok"), of(OK, or_none(max))),
    "distinct_s": (Aggregate(Kind.COUNT, "s", distinct=True), of(S, lambda values: len(set(values)))),
    "distinct_d": (
        Aggregate(Kind.SUM, "d", where="ok", distinct=True),
        of(D, or_none(lambda values: sum(set(values))), where=True),
    ),
    "set": (
        Aggregate(Kind.COLLECT_SET, "s"),
        of(S, lambda values: tuple(sorted(set(values), key=lambda value: (len(value), value)))),
    ),
}
"""Aggregates whose results depend on the rows alone."""


def grouped(live: list[Row], columns: Sequence[int]) -> dict[Row, list[Row]]:
    groups: dict[Row, list[Row]] = {}
    for row in live:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("changing", [True, False])
@given_on_disk_rarely(EXAMPLES, events=events)
def test_aggregates_by_group(changing: bool, backend: str, events: list[Any]) -> None:
    schema = with_change(SCHEMA) if changing else SCHEMA
    live = LiveRows(schema)
    specs = {name: spec for name, (spec, _) in EXACT.items()}
    operator = RetractingAggregate(schema, ["g", "h"], specs, before=True)
    with running(operator, [KeyLayout(schema, ["g", "h"])], backend) as aggregate:
        for event in events:
            if isinstance(event, int):
                aggregate.restart(event)
                continue
            aggregate.process(live.batch(event))
            wanted = Counter(
                (*key, *(model(group) for _, model in EXACT.values()))
                for key, group in grouped(live.rows, [G, H]).items()
            )
            # At each moment, not only in the end.
            assert aggregate.result == wanted
        if changing and backend == "memory":
            aggregate.process(all_gone(live))
            assert not aggregate.result
            assert aggregate.stored_entries() == {}


@pytest.mark.parametrize("changing", [True, False])
@given(events=events)
@settings(max_examples=EXAMPLES)
def test_upserts_hold_the_results_by_group(changing: bool, events: list[Any]) -> None:
    schema = with_change(SCHEMA) if changing else SCHEMA
    live = LiveRows(schema)
    specs = {"n": Aggregate(Kind.COUNT), "s": Aggregate(Kind.MAX, "s")}
    table: dict[Any, Row] = {}
    with running(RetractingAggregate(schema, ["g"], specs, before=False), [KeyLayout(schema, ["g"])]) as aggregate:
        aggregate.applies = False
        for event in events:
            if isinstance(event, int):
                aggregate.restart(event)
                continue
            aggregate.process(live.batch(event))
            for batch in aggregate.emitted:
                for g, n, s, kind in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    assert kind in ((2, 3) if g in table else (0,))
                    if kind == 3:
                        del table[g]
                    else:
                        table[g] = (n, s)
            aggregate.emitted.clear()
            assert table == {
                g: (len(group), of(S, or_none(max))(group)) for (g,), group in grouped(live.rows, [G]).items()
            }


@pytest.mark.parametrize("backend", BACKENDS)
@given_on_disk_rarely(EXAMPLES, events=events)
def test_a_global_aggregate_always_has_one_row(backend: str, events: list[Any]) -> None:
    schema = with_change(SCHEMA)
    live = LiveRows(schema)
    specs = {name: EXACT[name][0] for name in ("rows", "sum_d", "min_s", "distinct_s")}
    models = [EXACT[name][1] for name in specs]
    operator = RetractingAggregate(schema, [], specs, before=True, is_global=True)
    with running(operator, [KeyLayout(schema, [])], backend) as aggregate:
        seen = False
        for event in events:
            if isinstance(event, int):
                aggregate.restart(event)
                continue
            aggregate.process(live.batch(event))
            seen = seen or bool(event)
            assert aggregate.result == Counter([tuple(model(live.rows) for model in models)] if seen else [])
        aggregate.finish()
        assert aggregate.result == Counter([tuple(model(live.rows) for model in models)])


LISTS: dict[str, tuple[Aggregate, Callable[[list[Any]], Any]]] = {
    "list": (Aggregate(Kind.COLLECT_LIST, "s"), lambda values: tuple(value for value in values if value is not None)),
    "first": (Aggregate(Kind.FIRST, "s", ignore_nulls=False), lambda values: values[0]),
    "last": (Aggregate(Kind.LAST, "s", ignore_nulls=False), lambda values: values[-1]),
    "first_value": (
        Aggregate(Kind.FIRST, "s"),
        lambda values: next((value for value in values if value is not None), None),
    ),
    "last_value": (
        Aggregate(Kind.LAST, "s"),
        lambda values: next((value for value in reversed(values) if value is not None), None),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("changing", [True, False])
@given_on_disk_rarely(EXAMPLES, events=events)
def test_aggregates_in_order_of_arrival(changing: bool, backend: str, events: list[Any]) -> None:
    schema = with_change(SCHEMA) if changing else SCHEMA
    live = LiveRows(schema)
    specs = {name: spec for name, (spec, _) in LISTS.items()}
    lists: dict[Any, list[Any]] = {}
    with running(
        RetractingAggregate(schema, ["g"], specs, before=True), [KeyLayout(schema, ["g"])], backend
    ) as aggregate:
        for event in events:
            if isinstance(event, int):
                aggregate.restart(event)
                continue
            batch = live.batch(event)
            for row in batch.to_pylist():
                values = lists.setdefault(row["g"], [])
                if row.get("__change", 0) % 2:
                    values.remove(row["s"])  # of equal ones the first
                else:
                    values.append(row["s"])
            aggregate.process(batch)
            wanted = Counter(
                (g, *(model(values) for _, model in LISTS.values())) for g, values in lists.items() if values
            )
            assert aggregate.result == wanted
        if changing and backend == "memory":
            aggregate.process(all_gone(live))
            assert aggregate.stored_entries() == {}


@pytest.mark.parametrize("changing", [True, False])
@given(events=events)
@settings(max_examples=EXAMPLES)
def test_variances(changing: bool, events: list[Any]) -> None:
    schema = with_change(SCHEMA) if changing else SCHEMA
    live = LiveRows(schema)
    kinds = [Kind.VAR_POP, Kind.VAR_SAMP, Kind.STDDEV_POP, Kind.STDDEV_SAMP]
    models = [statistics.pvariance, statistics.variance, statistics.pstdev, statistics.stdev]
    specs = {kind.value: Aggregate(kind, "f") for kind in kinds}
    with running(RetractingAggregate(schema, ["g"], specs, before=True), [KeyLayout(schema, ["g"])]) as aggregate:
        for event in events:
            if isinstance(event, int):
                aggregate.restart(event)
                continue
            aggregate.process(live.batch(event))
            results = {row[0]: row[1:] for row in aggregate.result}
            groups = grouped(live.rows, [G])
            assert {(g,) for g in results} == groups.keys()
            for (g,), group in groups.items():
                values = [row[F] for row in group if row[F] is not None]
                for number, model in enumerate(models):
                    found = results[g][number]
                    if len(values) < 1 + number % 2:
                        assert found is None
                    else:
                        assert isclose(found, model(values), rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("changing", [True, False])
@given_on_disk_rarely(EXAMPLES, events=events)
def test_distinct_rows(changing: bool, backend: str, events: list[Any]) -> None:
    schema = with_change(SCHEMA) if changing else SCHEMA
    live = LiveRows(schema)
    names = SCHEMA.names
    with running(RetractingAggregate(schema, names, {}, before=True), [KeyLayout(schema, names)], backend) as distinct:
        for event in events:
            if isinstance(event, int):
                distinct.restart(event)
                continue
            distinct.process(live.batch(event))
            assert distinct.result == Counter(set(live.rows))
