"""Sinks that are at least once only: what the exactly-once sinks without such a mode are compared with.

All of them make rows durable and visible ahead of each checkpoint, and have nothing to commit after it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import snapline as sl
from snapline.connectors.files.parquet_groups import ParquetGroups
from snapline.connectors.postgres.postgres_connection import PostgresAddress
from snapline.connectors.postgres.postgres_table import PostgresTable
from snapline.connectors.postgres.row_changes import KeyedRows
from snapline.connectors.postgres.stored_writer import copied
from snapline.contracts.sink import Sink, SinkContext, SinkWriter

_GROUP_ROWS = 65_536


class PlainFiles(Sink):
    """A Parquet file per subtask and checkpoint, written in its place."""

    two_phase = False

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def writer(self, context: SinkContext) -> SinkWriter:
        return _FileWriter(Path(self._directory))


class _FileWriter(SinkWriter):
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: Any = None
        self._groups: ParquetGroups | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        directory.mkdir(parents=True, exist_ok=True)

    def write(self, batch: pa.RecordBatch) -> None:
        if self._groups is None:
            self._file = (self._directory / f"{secrets.token_hex(8)}.parquet").open("xb")
            self._groups = ParquetGroups(self._file, batch.schema)
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting and self._groups is not None:
            self._groups.write(self._waiting)
        self._waiting, self._rows = [], 0

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        del checkpoint_id
        if self._groups is not None:
            self._flush()
            self._groups.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = self._groups = None
        return ()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class PlainDelta(Sink):
    """Each subtask writes the same files as the sink, and adds them to the table itself ahead of each checkpoint."""

    two_phase = False

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._same = sl.sinks.Delta(directory)

    def check(self, schema: pa.Schema) -> None:
        self._same.check(schema)

    def starting(self, job_id: str) -> None:
        self._same.starting(job_id)

    def writer(self, context: SinkContext) -> SinkWriter:
        return _DeltaWriter(self._directory, self._same.writer(context))


class _DeltaWriter(SinkWriter):
    def __init__(self, directory: str, files: SinkWriter) -> None:
        self._directory = directory
        self._files = files

    def write(self, batch: pa.RecordBatch) -> None:
        self._files.write(batch)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        from deltalake import DeltaTable
        from deltalake.transaction import AddAction

        for payload in self._files.prepare(checkpoint_id):
            table = DeltaTable(self._directory)
            table.create_write_transaction(
                [
                    AddAction(file["path"], file["size"], file["partition"], file["time"], True, file["stats"])
                    for file in payload["files"]
                ],
                "append",
                table.schema(),
            )
        return ()

    def close(self) -> None:
        self._files.close()


class PlainUpsert(Sink):
    """Each subtask writes the last row of each key ahead of each checkpoint, in one transaction of PostgreSQL."""

    two_phase = False

    def __init__(self, dsn: str, table: str, key: str) -> None:
        self._dsn = dsn
        self._table = table
        self._key = key

    def writer(self, context: SinkContext) -> SinkWriter:
        return _UpsertWriter(self._dsn, self._table, self._key)


class _UpsertWriter(SinkWriter):
    def __init__(self, dsn: str, table: str, key: str) -> None:
        address = PostgresAddress("PlainUpsert", dsn, None)
        self._connection = address.connect(application="plain upsert", autocommit=True)
        self._into = PostgresTable("PlainUpsert", address, table, "not_used")
        self._table = table
        self._key = key
        self._keyed = KeyedRows("PlainUpsert", [key], None)
        self._waiting: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        del checkpoint_id
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return ()
        # In the order of keys: two subtasks that lock the same rows in different orders would stop each other.
        rows = self._keyed.last(pa.Table.from_batches(waiting))[0].sort_by(self._key)
        names = ", ".join(rows.column_names)
        updates = ", ".join(f"{name} = EXCLUDED.{name}" for name in rows.column_names if name != self._key)
        with self._connection.transaction():
            self._connection.execute(
                f"CREATE TEMPORARY TABLE given ON COMMIT DROP AS SELECT {names} FROM {self._table} "  # noqa: S608
                "WITH NO DATA".encode()
            )
            copied(self._connection, self._into, "given", rows.to_batches())
            self._connection.execute(
                f"INSERT INTO {self._table} ({names}) SELECT {names} FROM given ORDER BY {self._key} "  # noqa: S608
                f"ON CONFLICT ({self._key}) DO UPDATE SET {updates}".encode()
            )
        return ()

    def close(self) -> None:
        self._connection.close()
