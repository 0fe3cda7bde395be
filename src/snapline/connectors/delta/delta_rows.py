"""Reads the data files of a table: rows with all its columns, also those that the files do not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from snapline.connectors.delta.delta_place import DeltaPlace
from snapline.connectors.files.file_formats import infer_schema, open_rows
from snapline.connectors.files.file_rows import FileRows
from snapline.contracts.source import Position, SourceReader, Split, Wait
from snapline.errors import ConfigurationError, RestoreError, StorageError


class DeltaReader(SourceReader):
    """Reads its splits one after another. A position is a row group and a row within it."""

    def __init__(
        self,
        place: DeltaPlace,
        schema: pa.Schema,
        everything: pa.Schema,
        partition_by: Sequence[str],
        conditions: Sequence[Sequence[tuple[str, str, Any]]],
    ) -> None:
        self._place = place
        self._schema = schema
        self._filter = pq.filters_to_expression(conditions) if conditions else None
        used = {*schema.names, *(condition[0] for group in conditions for condition in group)}
        self._used = pa.schema([field for field in everything if field.name in used])
        self._partition_by = partition_by
        self._splits: list[tuple[Split, Position]] = []
        self._open: FileRows | None = None

    def add_split(self, split: Split, position: Position) -> None:
        if not (isinstance(split, dict) and {"path", "groups", "partition"} <= split.keys()):
            raise RestoreError(f"{split!r} is not a split of Delta; was the snapshot taken with another source?")
        self._splits.append((split, position))

    def read(self) -> pa.RecordBatch | Wait | None:
        while self._splits:
            split, position = self._splits[0]
            if self._open is None:
                self._open = self._opened(split, position)
            given = self._open.read()
            if isinstance(given, Wait):
                return given
            if given is not None:
                return self._completed(given, split["partition"])
            self.close()
            self._splits.pop(0)
        return None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        if self._open is None:
            return list(self._splits)
        return [(self._splits[0][0], self._open.position), *self._splits[1:]]

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _opened(self, split: Split, position: Position) -> FileRows:
        path = self._place.full(split["path"])
        try:
            there = infer_schema(path, "parquet", self._place.options)
        except ConfigurationError as error:
            raise StorageError(
                f"the Delta table {str(self._place)!r} has lost a file: {error}. VACUUM removes files of old versions: "
                "keep them longer than a job may need to read them, or start from scratch"
            ) from error
        wanted = [field for field in self._used if field.name in there.names and field.name not in self._partition_by]
        # Something has to be read, or nobody knows how many rows there are.
        fields = wanted or [there.field(0)]
        return open_rows(path, "parquet", pa.schema(fields), split["groups"], position, options=self._place.options)

    def _completed(self, batch: pa.RecordBatch, partition: Mapping[str, str | None]) -> pa.RecordBatch | Wait:
        """The columns of the schema, for rows that meet the conditions."""
        columns = []
        for field in self._used:
            if field.name in self._partition_by:
                columns.append(pa.repeat(partition_value(partition.get(field.name), field.type), batch.num_rows))
            elif field.name in batch.schema.names:
                columns.append(batch.column(field.name))
            else:
                columns.append(pa.nulls(batch.num_rows, field.type))
        rows = pa.RecordBatch.from_arrays(columns, schema=self._used)
        if self._filter is not None:
            rows = rows.filter(self._filter)
            if not rows.num_rows:
                return Wait(0)
        return rows.select(self._schema.names)


def partition_value(text: str | None, type_: pa.DataType) -> pa.Scalar:
    """A value of a partition column, from the text in the log. Times without a zone are in UTC."""
    if not text:
        return pa.scalar(None, type_)
    value = pa.array([text])
    if pa.types.is_timestamp(type_) and type_.tz is not None and not text.endswith("Z"):
        value = value.cast(pa.timestamp("us"))
    return value.cast(type_)[0]


def partition_row(partition: Mapping[str, str | None], names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """One row with the values of a partition."""
    columns = [pa.repeat(partition_value(partition.get(name), schema.field(name).type), 1) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=list(names))
