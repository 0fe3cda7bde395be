"""Nodes of `deduplicate` and `top_n`: arguments are checked, and nodes made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.api.expressions import check_column
from snapline.api.join_nodes import check_storable
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.deduplication import KeepFirst, KeepLast
from snapline.operators.kept_rows import RowType, kept_type
from snapline.operators.top_rows import MAX_COUNT, TopRows
from snapline.state.ttl import Lifetime, as_ttl

if TYPE_CHECKING:
    from snapline.api.keyed_stream import KeyedStream
    from snapline.api.stream import Stream


def deduplicate(
    self: KeyedStream,
    *,
    keep: str = "first",
    by: str | Sequence[str] | None = None,
    ttl: Lifetime | None = None,
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """One row per key: with `keep="first"` the one that comes first, and never another.

    With "last" every row that is at least as new as all before it is emitted, and replaces the last one of its key:
    newer by the column or columns `by`, or without them by arrival. Of rows that arrive at the same time only the
    newest is emitted. With `ttl` a key is forgotten that long after its row came.
    """
    lifetime = as_ttl(ttl, "deduplicate")
    operator: Operator
    if keep == "first":
        if by is not None:
            raise ConfigurationError(
                f"deduplicate: by={by!r} goes with keep='last'; the first row is the one that comes first"
            )
        operator = KeepFirst(lifetime)
    elif keep == "last":
        if by is None and lifetime is not None:
            raise ConfigurationError("deduplicate: without by= no state is kept; leave ttl= out")
        columns = [] if by is None else [by] if isinstance(by, str) else list(by)
        for column in columns:
            _check_sortable("deduplicate", column, self.schema)
        operator = KeepLast([pa.field(column, self.schema.field(column).type) for column in columns], lifetime)
    else:
        raise ConfigurationError(f"deduplicate: keep={keep!r}; use 'first' or 'last'")
    has_state = keep == "first" or by is not None
    return self._then("deduplicate", operator, self.schema, uid, parallelism, has_state=has_state)


def top_n(
    self: KeyedStream,
    n: int,
    *,
    by: str | Sequence[str],
    descending: bool | Sequence[bool] = True,
    rank: str = "rank",
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """The top `n` rows of each key so far: greatest first by the columns `by`, or least first, nulls last.

    Among equal rows the one that came first ranks higher. The column `rank` counts from 1; a row replaces the last
    one with the same key and rank. Only changes are emitted.
    """
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MAX_COUNT:
        raise ConfigurationError(f"top_n({n!r}): give the number of rows to keep per key, from 1 to {MAX_COUNT}")
    columns = [by] if isinstance(by, str) else list(by)
    if not columns:
        raise ConfigurationError("top_n: by= is empty; name at least one column to sort by")
    directions = [descending] * len(columns) if isinstance(descending, bool) else list(descending)
    if len(directions) != len(columns) or not all(isinstance(item, bool) for item in directions):
        raise ConfigurationError(
            f"top_n: descending={descending!r} for {len(columns)} columns; give True or False for each, or one for all"
        )
    for column in columns:
        _check_sortable("top_n", column, self.schema)
        if column in self.key_columns:
            raise ConfigurationError(f"top_n: {column!r} is a key column, equal in all rows of a key; sort by others")
    if not isinstance(rank, str) or rank in self.schema.names:
        raise ConfigurationError(f"top_n: rank={rank!r}; give a column name that is not taken")
    rows = RowType(self.schema, self.key_columns)
    check_storable("top_n", rows.fields)
    fields = [field.with_type(kept_type(field.type)) for field in self.schema]
    schema = checked_schema(pa.schema([*fields, pa.field(rank, pa.int64(), nullable=False)]), "top_n()")
    operator = TopRows(n, list(zip(columns, directions, strict=True)), rows, schema, rank)
    return self._then("top_n", operator, schema, uid, parallelism, has_state=True)


def _check_sortable(call: str, column: Any, schema: pa.Schema) -> None:
    check_column(call, column, schema)
    kind = schema.field(column).type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        raise ConfigurationError(
            f"{call}: by={column!r} is {kind}, which has no order; use a column of numbers, text or times"
        )
