"""Aggregates of pairs, extremes by another value, percentiles, modes and bits against plain Python, over changes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from functools import reduce
from math import isclose, sqrt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.changes.running_changes import LiveRows, Row, all_gone, running

from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.group_functions import Percentages
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.retracting_aggregate import RetractingAggregate

EXAMPLES, EXAMPLES_ON_DISK = 15, 4

PAIR = pa.struct([("_0", pa.float64()), ("_1", pa.int64())])
SCHEMA = pa.schema(
    [
        ("g", pa.string()),
        ("v", pa.int64()),
        ("s", pa.string()),
        ("ok", pa.bool_()),
        ("x", pa.float64()),
        ("y", pa.int64()),
    ]
)
WITH_PAIRS = pa.schema([*SCHEMA, ("pair", PAIR), ("by", pa.struct([("_0", pa.string()), ("_1", pa.int64())]))])
G, V, S, OK, X, Y, XY, BY = range(8)

rows = st.tuples(
    st.sampled_from(["a", None]),
    st.integers(-4, 4) | st.none(),
    st.sampled_from(["", "x", "yy", None]),
    st.booleans() | st.none(),
    st.integers(-8, 8).map(lambda number: number / 4),
    st.integers(0, 9),
).map(lambda row: (*row, {"_0": row[X], "_1": row[Y]}, {"_0": row[S], "_1": row[Y]}))
steps = st.lists(st.tuples(st.integers(0, 3), rows, st.integers(0, 50)), max_size=6)
events = st.lists(st.one_of(steps, steps, steps, st.integers(1, 3)), max_size=10)

Model = Callable[[list[Row]], Any]


def of(column: int, function: Callable[[list[Any]], Any], *, where: bool = False) -> Model:
    def result(group: list[Row]) -> Any:
        values = [row[column] for row in group if row[column] is not None and (not where or row[OK])]
        return function(values) if values else None

    return result


def percentile(share: float) -> Callable[[list[Any]], float]:
    def result(values: list[Any]) -> float:
        ordered, position = sorted(values), (len(values) - 1) * share
        low = int(position)
        high = min(low + 1, len(values) - 1)
        return float(ordered[low] + (ordered[high] - ordered[low]) * (position - low))

    return result


def disc(share: float, *, descending: bool = False) -> Callable[[list[Any]], Any]:
    def result(values: list[Any]) -> Any:
        ordered = sorted(values, reverse=descending)
        return next(value for n, value in enumerate(ordered, 1) if n / len(values) >= share)

    return result


def mode(values: list[Any]) -> Any:
    counts = Counter(values)
    return min(value for value, count in counts.items() if count == max(counts.values()))


def by(choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def result(values: list[Any]) -> Any:
        wanted = choose(value["_1"] for value in values)
        return {value["_0"] for value in values if value["_1"] == wanted}

    return result


QUARTERS = Percentages((0.0, 0.25, 1.0), is_list=True)
EXACT: dict[str, tuple[Aggregate, Model]] = {
    "and": (Aggregate(Kind.BIT_AND, "v"), of(V, lambda values: reduce(lambda a, b: a & b, values))),
    "or": (
        Aggregate(Kind.BIT_OR, "v", where="ok"),
        of(V, lambda values: reduce(lambda a, b: a | b, values), where=True),
    ),
    "xor": (
        Aggregate(Kind.BIT_XOR, "v", distinct=True),
        of(V, lambda values: reduce(lambda a, b: a ^ b, set(values))),
    ),
    "mode": (Aggregate(Kind.MODE, "s", where="ok"), of(S, mode, where=True)),
    "mode_v": (Aggregate(Kind.MODE, "v"), of(V, mode)),
    "median": (Aggregate(Kind.PERCENTILE, "v", percentages=Percentages((0.5,))), of(V, statistics.median)),
    "quarters": (
        Aggregate(Kind.PERCENTILE, "v", percentages=QUARTERS),
        of(V, lambda values: tuple(percentile(share)(values) for share in QUARTERS.values)),
    ),
    "distinct": (
        Aggregate(Kind.PERCENTILE, "v", distinct=True, percentages=Percentages((0.5,))),
        of(V, lambda values: statistics.median(set(values))),
    ),
    "disc": (
        Aggregate(Kind.PERCENTILE_DISC, "v", percentages=Percentages((0.25,), descending=True)),
        of(V, disc(0.25, descending=True)),
    ),
    "approx": (Aggregate(Kind.PERCENTILE_APPROX, "v", percentages=Percentages((0.5,))), of(V, disc(0.5))),
}


def covariance(values: list[Any]) -> float:
    xs, ys = [value["_0"] for value in values], [value["_1"] for value in values]
    x, y = statistics.fmean(xs), statistics.fmean(ys)
    return float(sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)))


def spread(values: list[Any], field: str) -> float:
    numbers = [value[field] for value in values]
    return float(sum((number - statistics.fmean(numbers)) ** 2 for number in numbers))


def corr(values: list[Any]) -> float | None:
    scale = sqrt(spread(values, "_0") * spread(values, "_1"))
    return covariance(values) / scale if scale else None


def moment(values: list[float], power: int) -> float:
    return sum((value - statistics.fmean(values)) ** power for value in values)


def skewness(values: list[float]) -> float | None:
    second = moment(values, 2)
    return sqrt(len(values)) * moment(values, 3) / second**1.5 if second else None


def kurtosis(values: list[float]) -> float | None:
    second = moment(values, 2)
    return len(values) * moment(values, 4) / second**2 - 3 if second else None


CLOSE: dict[str, tuple[Aggregate, Model]] = {
    "covar_pop": (Aggregate(Kind.COVAR_POP, "pair"), of(XY, lambda values: covariance(values) / len(values))),
    "covar_samp": (
        Aggregate(Kind.COVAR_SAMP, "pair", where="ok"),
        of(XY, lambda values: covariance(values) / (len(values) - 1) if len(values) > 1 else None, where=True),
    ),
    "corr": (Aggregate(Kind.CORR, "pair"), of(XY, corr)),
    "sxy": (Aggregate(Kind.REGR_SXY, "pair"), of(XY, covariance)),
    "slope": (
        Aggregate(Kind.REGR_SLOPE, "pair"),
        of(XY, lambda values: covariance(values) / spread(values, "_1") if spread(values, "_1") else None),
    ),
    "skewness": (Aggregate(Kind.SKEWNESS, "x"), of(X, skewness)),
    "kurtosis": (Aggregate(Kind.KURTOSIS, "x", distinct=True), of(X, lambda values: kurtosis(sorted(set(values))))),
    "sxx": (Aggregate(Kind.REGR_SXX, "x"), of(X, lambda values: moment(values, 2))),
}
BY_VALUE: dict[str, tuple[Aggregate, Model]] = {
    "max_by": (Aggregate(Kind.MAX_BY, "by"), of(BY, by(max))),
    "min_by": (Aggregate(Kind.MIN_BY, "by", where="ok"), of(BY, by(min), where=True)),
}


@pytest.mark.parametrize("changing", [True, False])
@given(events=events)
@settings(max_examples=EXAMPLES)
def test_aggregates_by_group(changing: bool, events: list[Any]) -> None:
    check_aggregates(changing, "memory", events)


@pytest.mark.slow
@pytest.mark.parametrize("changing", [True, False])
@given(events=events)
@settings(max_examples=EXAMPLES_ON_DISK)
def test_aggregates_by_group_on_disk(changing: bool, events: list[Any]) -> None:
    check_aggregates(changing, "rocksdb", events)


def check_aggregates(changing: bool, backend: str, events: list[Any]) -> None:
    schema = with_change(WITH_PAIRS) if changing else WITH_PAIRS
    live = LiveRows(schema)
    specs = {name: spec for name, (spec, _) in {**EXACT, **CLOSE, **BY_VALUE}.items()}
    operator = RetractingAggregate(schema, ["g"], specs, before=True)
    with running(operator, [KeyLayout(schema, ["g"])], backend) as aggregate:
        for event in events:
            if isinstance(event, int):
                aggregate.restart(event)
                continue
            aggregate.process(live.batch(event))
            groups: dict[Any, list[Row]] = {}
            for row in live.rows:
                groups.setdefault(row[G], []).append(row)
            found = {row[0]: dict(zip(specs, row[1:], strict=True)) for row in aggregate.result.elements()}
            assert found.keys() == groups.keys()
            for key, group in groups.items():
                for name, (_, model) in EXACT.items():
                    assert found[key][name] == model(group), name
                for name, (_, model) in CLOSE.items():
                    assert near(found[key][name], model(group)), name
                for name, (_, model) in BY_VALUE.items():
                    wanted = model(group)
                    assert found[key][name] is None if wanted is None else found[key][name] in wanted, name
        if changing and backend == "memory":
            aggregate.process(all_gone(live))
            assert not aggregate.result
            assert aggregate.stored_entries() == {}


def near(found: float | None, wanted: float | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-9)
