"""Lookups in static tables: arguments are checked, and nodes made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.api.expressions import check_column
from snapline.api.join_nodes import Suffixes, check_suffixes
from snapline.config import Size, size_bytes
from snapline.contracts.schemas import checked_schema, key_type
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.joins.lookup_join import LookUp, StaticTable
from snapline.operators.kept_rows import kept_type
from snapline.state.exact_cast import exact_cast

if TYPE_CHECKING:
    from snapline.api.stream import Stream

_HOWS = ("inner", "left")


def lookup(
    self: Stream,
    static: Any,
    on: str | Sequence[str] | Mapping[str, str],
    *,
    how: str = "inner",
    suffixes: Suffixes = ("", "_right"),
    max_size: Size = "256MB",
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Join a static table: add to each row the columns of the table's rows with equal keys.

    `static` is a `pyarrow.Table`, or a DataFrame of Spark, pandas or Polars. It is read now and shipped with the
    job, so `max_size` limits it. `on` are the columns that must be equal, `["user"]`, or `{"user": "id"}` if they
    have other names in the table. A row with several matches is emitted with each; one without a match, or with a
    null in its key, is dropped, or with `how="left"` emitted with nulls.
    """
    if how not in _HOWS:
        raise ConfigurationError(f"lookup: how={how!r}; use one of {', '.join(map(repr, _HOWS))}")
    table = _table(static)
    columns = _columns(on)
    for mine, theirs in columns.items():
        check_column("lookup", mine, self.schema)
        check_column("lookup, in the table", theirs, table.schema)
    key_type(self.schema, tuple(columns))
    limit, size = size_bytes(max_size, setting="max_size"), table.nbytes
    if size > limit:
        raise ConfigurationError(
            f"lookup: the table has {size:,} bytes and is shipped with the job to every subtask; the limit is "
            f"{limit:,}. Select only the columns and rows you need, join it as a stream, or raise max_size="
        )
    table = _with_key_types(table, self.schema, columns)
    schema = _schema(self.schema, table.schema, columns, check_suffixes("lookup", suffixes), is_left=how == "left")
    operator = LookUp(StaticTable(table, tuple(columns.values())), tuple(columns), schema, keeps_all=how == "left")
    return self._then("lookup", operator, schema, uid, parallelism)


def _table(static: Any) -> pa.Table:
    """The user's table; DataFrames are recognised by their methods, since their packages are optional."""
    if isinstance(static, pa.Table):
        return static
    if isinstance(static, pa.RecordBatch):
        return pa.Table.from_batches([static])
    for name in ("toArrow", "to_arrow"):
        if callable(make := getattr(static, name, None)) and isinstance(table := make(), pa.Table):
            return table
    if type(static).__module__.partition(".")[0] == "pandas":
        try:
            return pa.Table.from_pandas(static, preserve_index=False)
        except (pa.ArrowException, TypeError, AttributeError) as error:
            raise ConfigurationError(f"lookup: the DataFrame cannot be converted to an Arrow table: {error}") from error
    raise ConfigurationError(
        f"lookup: {type(static).__name__} is not a table; give a pyarrow.Table, or a Spark, pandas or Polars DataFrame"
    )


def _columns(on: Any) -> dict[str, str]:
    """Maps columns of the stream to columns of the table."""
    if isinstance(on, Mapping):
        columns = dict(on)
    elif isinstance(on, str):
        columns = {on: on}
    elif isinstance(on, Sequence):
        columns = {name: name for name in on}
    else:
        columns = {}
    if not columns or len(set(columns.values())) < len(columns):
        raise ConfigurationError(
            f"lookup: on={on!r}; give the columns that must be equal, ['user'], or {{'user': 'id'}} if they have "
            "other names in the table"
        )
    return columns


def _with_key_types(table: pa.Table, schema: pa.Schema, columns: Mapping[str, str]) -> pa.Table:
    """The table with its key columns cast to the stream's types, if that changes no value."""
    for mine, theirs in columns.items():
        kind, position = kept_type(schema.field(mine).type), table.schema.get_field_index(theirs)
        column = table.column(position)
        found = kept_type(column.type)
        if found == kind:
            continue
        try:
            if not _is_alike(found, kind):
                raise UserCodeError("the types are unrelated")
            chunks = [exact_cast(chunk.cast(found), kind, may_round=False) for chunk in column.chunks]
        except UserCodeError as error:
            raise ConfigurationError(
                f"lookup: the column {mine!r} is {kind}, {theirs!r} of the table is {found}: {error}; cast one of them"
            ) from error
        table = table.set_column(position, pa.field(theirs, kind), pa.chunked_array(chunks, kind))
    return table


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    text = (pa.types.is_string, pa.types.is_large_string)
    binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    single = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_date)
    families = (text, binary, *((is_it,) for is_it in single))
    return any(any(is_it(one) for is_it in family) and any(is_it(other) for is_it in family) for family in families)


def _schema(
    stream: pa.Schema, table: pa.Schema, columns: Mapping[str, str], suffixes: Suffixes, *, is_left: bool
) -> pa.Schema:
    """The columns of the stream, and those of the table without the key."""
    added = [field for field in table if field.name not in columns.values()]
    taken = {field.name for field in added}
    fields = [
        field.with_name(field.name + suffixes[0]) if field.name in taken and field.name not in columns else field
        for field in stream
    ]
    for field in added:
        name = field.name + suffixes[1] if field.name in stream.names else field.name
        fields.append(pa.field(name, kept_type(field.type), nullable=is_left or field.nullable))
    return checked_schema(pa.schema(fields), "lookup()")
