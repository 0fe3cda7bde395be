"""Which columns of rows are written and under which names; and rows by key, of which the last counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from snapline.errors import ConfigurationError, UserCodeError


class ColumnChoice:
    """Columns to write: all, the named ones, or the named ones under other names. Can be pickled."""

    def __init__(self, call: str, columns: Sequence[str] | Mapping[str, str] | None) -> None:
        if isinstance(columns, str) or (columns is not None and not columns):
            raise ConfigurationError(f"{call}: columns={columns!r} is no list of names; leave it out to write all")
        self._call = call
        self._names: dict[str, str] | None = None
        if columns is not None:
            self._names = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of what is written; `ConfigurationError` if a column is not there."""
        if self._names is None:
            return schema
        missing = [name for name in self._names if name not in schema.names]
        if missing:
            raise ConfigurationError(
                f"{self._call}: the rows have no column {missing[0]!r}; they have {', '.join(schema.names)}"
            )
        return pa.schema([schema.field(name).with_name(given) for name, given in self._names.items()])

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with these columns only."""
        if self._names is None:
            return batch
        return batch.select(list(self._names)).rename_columns(list(self._names.values()))


class KeyedRows:
    """Rows of a table by key, some of which may say that the row of their key is deleted."""

    def __init__(self, call: str, key: Sequence[str], delete_column: str | None) -> None:
        self.key = list(key)
        self.delete_column = delete_column
        self._call = call

    def check(self, schema: pa.Schema) -> None:
        """Raises `ConfigurationError` unless rows of this schema have the key, and the column of deletions."""
        for name in [*self.key, *([self.delete_column] if self.delete_column else [])]:
            if name not in schema.names:
                raise ConfigurationError(
                    f"{self._call}: the rows have no column {name!r}; they have {', '.join(schema.names)}"
                )
        for name in self.key:
            if pt.is_nested(schema.field(name).type):
                raise ConfigurationError(f"{self._call}: the key {name!r} is nested; use plain columns as key")
        if self.delete_column in self.key:
            raise ConfigurationError(f"{self._call}: delete_column is part of the key; use another one")
        if self.delete_column and not pt.is_boolean(schema.field(self.delete_column).type):
            raise ConfigurationError(f"{self._call}: the column {self.delete_column!r} must be true or false")

    def written(self, schema: pa.Schema) -> pa.Schema:
        """The schema of what the table gets."""
        if self.delete_column is None:
            return schema
        return schema.remove(schema.get_field_index(self.delete_column))

    def check_rows(self, batch: pa.RecordBatch) -> None:
        """Raises `UserCodeError` if a key is null: no row is like another then."""
        for name in self.key:
            if batch.column(name).null_count:
                raise UserCodeError(f"{self._call}: the key column {name!r} is null; filter such rows out before")

    def newest(self, table: pa.Table) -> pa.Table:
        """The last row of each key, deletions too, in the order of the table."""
        numbered = table.select(self.key).append_column("", pa.array(np.arange(table.num_rows)))
        keys = [str(index) for index in range(len(self.key))]
        numbered = numbered.rename_columns([*keys, "row"])
        newest = numbered.group_by(keys, use_threads=False).aggregate([("row", "max")]).column("row_max")
        return table.take(newest.take(pc.array_sort_indices(newest)))

    def last(self, table: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The last row of each key: those to write, and the keys of those to delete."""
        rows = self.newest(table)
        if self.delete_column is None:
            return rows, rows.select(self.key).slice(0, 0)
        is_deleted = pc.fill_null(rows.column(self.delete_column), False)
        kept = rows.filter(pc.invert(is_deleted)).drop_columns([self.delete_column])
        return kept, rows.filter(is_deleted).select(self.key)
