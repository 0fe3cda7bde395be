"""What sinks take of changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.running_changes import batch_of

from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.sink_changes import ChangesToSink, SinkChanges, check_sink, split_upserts
from snapline.testing.operator_harness import OperatorHarness

PLAIN = pa.schema([("k", pa.string()), ("v", pa.int64())])
CHANGING = with_change(PLAIN)


def written(operator: ChangesToSink, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    harness = OperatorHarness(operator)
    harness.open().process(batch, 0)
    for made in harness.emitted:
        assert made.schema == operator.output_schema
    return [tuple(row.values()) for row in harness.rows()]


def test_a_sink_that_appends_takes_no_changes() -> None:
    check_sink("parquet", SinkChanges.APPENDS, PLAIN)
    with pytest.raises(ConfigurationError, match="parquet can only append rows"):
        check_sink("parquet", SinkChanges.APPENDS, CHANGING)
    assert written(ChangesToSink(SinkChanges.APPENDS, PLAIN), batch_of(PLAIN, [("a", 1)])) == [("a", 1)]


def test_a_sink_of_upserts_needs_a_key_that_is_there() -> None:
    with pytest.raises(ConfigurationError, match="name the columns of the key"):
        check_sink("kafka", SinkChanges.UPSERTS, CHANGING)
    with pytest.raises(ConfigurationError, match="there is no x"):
        check_sink("kafka", SinkChanges.UPSERTS, CHANGING, ["k", "x"])


def test_the_last_row_of_a_key_counts_and_deletes_are_apart() -> None:
    given = batch_of(
        CHANGING,
        [("a", 1, 3), ("b", 1, 0), ("a", 2, 0), (None, 1, 0), ("b", 1, 1), ("b", 2, 2), ("c", 1, 3), (None, 1, 3)],
    )
    operator = ChangesToSink(SinkChanges.UPSERTS, CHANGING, ["k"])
    assert written(operator, given) == [("a", 2, 2), ("b", 2, 2), ("c", 1, 3), (None, 1, 3)]
    upserts, deletes = split_upserts(batch_of(CHANGING, [("a", 2, 2), ("c", 1, 3)]))
    assert (upserts.to_pylist(), deletes.to_pylist()) == ([{"k": "a", "v": 2}], [{"k": "c", "v": 1}])
    assert written(operator, batch_of(CHANGING, [("a", 1, 1)])) == []


def test_a_sink_of_changes_sees_all_of_them() -> None:
    operator = ChangesToSink(SinkChanges.CHANGES, CHANGING)
    assert written(operator, batch_of(CHANGING, [("a", 1, 1), ("a", 2, 2)])) == [("a", 1, 1), ("a", 2, 2)]
    assert written(ChangesToSink(SinkChanges.CHANGES, PLAIN), batch_of(PLAIN, [("a", 1)])) == [("a", 1, 0)]
