"""Data files of one subtask: written below the table's directory, and named by nothing until a commit names them."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.connectors.delta.delta_place import STAGED, DeltaPlace
from snapline.connectors.delta.delta_statistics import file_statistics, has_nan
from snapline.connectors.files.parquet_groups import ParquetGroups
from snapline.contracts.sink import SinkContext
from snapline.storage.objects.local_backend import sync_directory

MAX_OPEN_FILES = 64
"""Partitions that a subtask writes at the same time; the one that was written longest ago is closed for another."""

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

_FLUSH_ROWS = 131_072
_FLUSH_BYTES = 16 << 20
_MAX_DIRECTORY_NAME = 100
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]")
_NAME = re.compile(r"part-(?P<origin>[0-9a-f]{16})-(?P<attempt>\d+)-(?P<first>\d+)-(?P<subtask>\d+)-[0-9a-f]+\.parquet")


def origin_of(lineage: str, uid: str) -> str:
    """What the names of a sink's files begin with, for one lineage."""
    return hashlib.sha256(f"{lineage}/{uid}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FileName:
    """Who wrote a file, and the first checkpoint that it can belong to."""

    origin: str
    attempt: int
    first_checkpoint: int

    @staticmethod
    def parse(name: str) -> FileName | None:
        """None if it is not the name of a data file of a sink."""
        match = _NAME.fullmatch(name.rpartition("/")[2])
        return None if match is None else FileName(match["origin"], int(match["attempt"]), int(match["first"]))


class DataFiles:
    """The open and finished files of one subtask since the last checkpoint.

    With `is_staged` they are for a merge: hidden, with all columns and not divided by partition.
    """

    def __init__(
        self,
        place: DeltaPlace,
        context: SinkContext,
        schema: pa.Schema,
        partition_by: Sequence[str],
        max_file_bytes: int,
        *,
        is_staged: bool,
    ) -> None:
        self._place = place
        self._context = context
        self._origin = origin_of(context.lineage, context.uid)
        self._partition_by = [] if is_staged else list(partition_by)
        self._schema = pa.schema([field for field in schema if field.name not in self._partition_by])
        self._max_file_bytes = max_file_bytes
        self._is_staged = is_staged
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}
        self._finished: list[dict[str, Any]] = []

    def write(self, batch: pa.RecordBatch, first_checkpoint: int) -> None:
        """Takes rows with the table's types; they belong to this checkpoint, or a later one."""
        for values, part in divided(batch, self._partition_by):
            file = self._open.pop(values, None)
            if file is None:
                if len(self._open) >= MAX_OPEN_FILES:
                    self._finish(next(iter(self._open)))
                file = _OpenFile(self._place, self._name(values, first_checkpoint), self._schema)
            self._open[values] = file  # the last one is the one written last
            file.write(part)
            if file.size_bytes >= self._max_file_bytes:
                self._finish(values)

    def finish(self) -> list[dict[str, Any]]:
        """Makes everything durable. Returns what the log needs to know of the files since the last call."""
        for values in list(self._open):
            self._finish(values)
        finished, self._finished = self._finished, []
        return finished

    def abandon(self) -> None:
        """Deletes what was not returned by `finish`."""
        opened, self._open = self._open, {}
        finished, self._finished = self._finished, []
        for file in opened.values():
            file.abandon()
        if finished:
            self._place.objects.delete(self._place.full(entry["path"]) for entry in finished)

    def _finish(self, values: tuple[str | None, ...]) -> None:
        file = self._open.pop(values)
        entry = file.finish()
        entry["partition"] = dict(zip(self._partition_by, values, strict=True))
        self._finished.append(entry)

    def _name(self, values: Sequence[str | None], first_checkpoint: int) -> str:
        context = self._context
        name = f"part-{self._origin}-{context.attempt}-{first_checkpoint}-{context.subtask}-{secrets.token_hex(8)}"
        directories = [
            f"{_plain_name(column)}={NO_VALUE if value is None else _plain_name(value)}"
            for column, value in zip(self._partition_by, values, strict=True)
        ]
        below = [STAGED, self._origin] if self._is_staged else directories
        return "/".join([*below, f"{name}.parquet"])


class _OpenFile:
    """A Parquet file being written: in its place if that is local, else in a temporary file that is sent at the end."""

    def __init__(self, place: DeltaPlace, name: str, schema: pa.Schema) -> None:
        self._place = place
        self._name = name
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._holds_nan = False
        with place.explained(f"cannot be written, file {name}"):
            if place.is_local:
                self._path = Path(place.full(name))
                _make_directory(self._path.parent, Path(place.path))
            else:
                handle, path = tempfile.mkstemp(prefix="snapline-delta-", suffix=".parquet")
                os.close(handle)
                self._path = Path(path)
            self._sink = pa.OSFile(str(self._path), "wb")
            self._groups = ParquetGroups(self._sink, schema, compression="snappy", store_schema=False)

    def write(self, batch: pa.RecordBatch) -> None:
        self._holds_nan = self._holds_nan or has_nan(batch)
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _FLUSH_ROWS or self._bytes >= _FLUSH_BYTES:
            self._flush()

    @property
    def size_bytes(self) -> int:
        """The approximate size, including buffered batches."""
        return int(self._sink.tell()) + self._bytes

    def finish(self) -> dict[str, Any]:
        """Complete the file and make it durable. Returns its entry for the log."""
        self._flush()
        with self._place.explained(f"cannot be written, file {self._name}"):
            metadata = self._groups.close()
            self._sink.close()
            size = self._path.stat().st_size
            if self._place.is_local:
                _sync_file(self._path)
                sync_directory(self._path.parent)
            else:
                self._place.objects.upload(self._path, self._place.full(self._name))
                self._path.unlink()
        return {
            "path": self._name,
            "size": size,
            "rows": metadata.num_rows,
            "time": int(time.time() * 1000),
            "stats": file_statistics(metadata, self._schema, holds_nan=self._holds_nan),
        }

    def abandon(self) -> None:
        """Delete the file; its rows will be written again."""
        try:
            self._groups.close()
            self._sink.close()
        except OSError:
            # It is deleted anyway; a full disk is what most likely ended the job.
            pass
        finally:
            self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._waiting:
            with self._place.explained(f"cannot be written, file {self._name}"):
                self._groups.write(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0


def divided(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """The rows of each partition, in their order, without its columns, and its values as the log writes them."""
    if not columns:
        yield (), batch
        return
    codes = np.zeros(batch.num_rows, np.int64)
    texts: list[list[str | None]] = []
    for name in columns:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        # The format has no empty text in partitions: it reads as null.
        texts.append([value or None for value in encoded.dictionary.cast(pa.string()).to_pylist()])
        codes = codes * len(texts[-1]) + encoded.indices.to_numpy(zero_copy_only=False)
    rest = batch.drop_columns(list(columns))
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rows = rest if len(starts) == 1 else rest.take(pa.array(order))
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        code = int(ordered[start])
        values: list[str | None] = []
        for found in reversed(texts):
            code, place = divmod(code, len(found))
            values.append(found[place])
        yield tuple(reversed(values)), rows.slice(start, end - start)


def _plain_name(text: str) -> str:
    """A part of the name of a directory. It only helps people: what counts is what the log says."""
    return _UNUSUAL.sub("_", text)[:_MAX_DIRECTORY_NAME]


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_directory(path: Path, root: Path) -> None:
    """Make a directory in the table that survives a crash of the machine."""
    if path.is_dir():
        return
    path.mkdir(parents=True, exist_ok=True)
    while path != root.parent and path != path.parent:
        path = path.parent
        sync_directory(path)
