"""Keyed streams and rows for the tests of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import snapline as sl

Run = Callable[..., Any]
SCHEMA = pa.schema([("user", pa.string()), ("time", pa.int64()), ("value", pa.int64())])


class NoRows(sl.Source):
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> list[Any]:
        return []

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        raise AssertionError("never read")


def keyed(schema: pa.Schema = SCHEMA, *columns: str) -> sl.KeyedStream:
    rows = sl.Job("test").source(NoRows(schema), "rows", watermarks=sl.Watermarks("time"))
    return rows.key_by(*(columns or ("user",)))


def opened(run: Run, stream: sl.Stream, key: Any = "string", columns: tuple[str, ...] = ("user",)) -> Any:
    """A harness, already open, for the operator of a stream."""
    harness = run(stream._inputs[0].node.operator, key=key, key_columns=columns)
    harness.open()
    return harness


def rows(*given: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in given], schema=schema)


def values(harness: Any) -> list[tuple[Any, ...]]:
    """The values of the rows emitted since the last call."""
    return [tuple(row.values()) for row in harness.rows()]
