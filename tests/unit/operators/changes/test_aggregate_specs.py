"""Aggregates as data: the types of their results, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.errors import ConfigurationError
from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind
from snapline.operators.changes.counted_values import Distinct

SCHEMA = pa.schema(
    [("i", pa.int32()), ("f", pa.float32()), ("d", pa.decimal128(7, 2)), ("s", pa.string()), ("l", pa.list_(pa.int8()))]
)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (Aggregate(Kind.COUNT), pa.int64()),
        (Aggregate(Kind.SUM, "i"), pa.int64()),
        (Aggregate(Kind.SUM, "f"), pa.float64()),
        (Aggregate(Kind.SUM, "d"), pa.decimal128(17, 2)),
        (Aggregate(Kind.AVG, "i"), pa.float64()),
        (Aggregate(Kind.AVG, "d"), pa.decimal128(11, 6)),
        (Aggregate(Kind.MIN, "i"), pa.int32()),
        (Aggregate(Kind.MAX, "s"), pa.string()),
        (Aggregate(Kind.FIRST, "l"), pa.list_(pa.int8())),
        (Aggregate(Kind.COLLECT_SET, "s"), pa.list_(pa.string())),
        (Aggregate(Kind.STDDEV_SAMP, "i"), pa.float64()),
        (Aggregate(Kind.SUM, "i", result=pa.int32()), pa.int32()),
    ],
)
def test_types_of_results(spec: Aggregate, kind: pa.DataType) -> None:
    assert spec.accumulator(SCHEMA).result == kind


def test_distinct_means_something_only_where_equal_values_count_twice() -> None:
    assert isinstance(Aggregate(Kind.SUM, "i", distinct=True).accumulator(SCHEMA), Distinct)
    assert not isinstance(Aggregate(Kind.MAX, "i", distinct=True).accumulator(SCHEMA), Distinct)


@pytest.mark.parametrize(
    "spec",
    [
        Aggregate(Kind.SUM, "s"),
        Aggregate(Kind.AVG, "l"),
        Aggregate(Kind.MIN, "l"),
        Aggregate(Kind.VAR_POP, "s"),
        Aggregate(Kind.SUM, "d", result=pa.decimal128(17, 3)),
    ],
)
def test_columns_without_such_an_aggregate_are_refused(spec: Aggregate) -> None:
    with pytest.raises(ConfigurationError, match=rf"{spec.kind}\({spec.column}\) cannot be computed as"):
        spec.accumulator(SCHEMA)


def test_a_column_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="sum: give the column"):
        Aggregate(Kind.SUM).accumulator(SCHEMA)
