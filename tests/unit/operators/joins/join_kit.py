"""Layouts and batches for the tests of joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from snapline.operators.joins.join_rows import JoinLayout
from snapline.operators.kept_rows import RowType, kept_type

Run = Callable[..., Any]
INNER, LEFT, FULL = (False, False), (True, False), (True, True)
PLAIN = pa.schema([("k", pa.int64()), ("v", pa.int64())])
TIMED = pa.schema([("k", pa.int64()), ("t", pa.int64())])
CHANGE = pa.field("change", pa.string())


def layout(left: pa.Schema, right: pa.Schema, keys: tuple[str, ...], *added: pa.Field) -> JoinLayout:
    """Names of right columns get an r at the end."""
    sides = RowType(left, keys), RowType(right, keys)
    fields = [left.field(name) for name in keys] + sides[0].fields
    fields += [field.with_name(f"{field.name}r") for field in sides[1].fields]
    schema = pa.schema([*(field.with_type(kept_type(field.type)) for field in fields), *added])
    return JoinLayout(sides, schema, tuple(range(len(schema))))


def batch(schema: pa.Schema, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def values(harness: Any) -> list[tuple[Any, ...]]:
    """The values of the rows emitted since the last call, sorted."""
    return sorted((tuple(row.values()) for row in harness.rows()), key=repr)
