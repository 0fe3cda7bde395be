"""What a table's log says: the files of one version, and those that later versions add."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from snapline.connectors.delta.delta_place import LOG, DeltaPlace
from snapline.errors import ConfigurationError, ObjectNotFoundError, StorageError

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file: its name below the table's directory, and the values of the partition columns as text."""

    name: str
    partition: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What one version of a table did. `changes` says how it changed rows that were there, if it did."""

    version: int
    files: tuple[TableFile, ...]
    changes: str | None
    schema: str | None


def files_of(table: DeltaTable, what: str) -> list[TableFile]:
    """The files of the version that the table is at. Raises `ConfigurationError` for one that cannot be read here."""
    check_readable(table, what)
    columns = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions(flatten=True))
    values = [actions[f"partition.{name}"].cast(pa.string()).to_pylist() for name in columns]
    return [
        TableFile(_name(path, what), dict(zip(columns, row, strict=True)))
        for path, *row in zip(actions["path"].to_pylist(), *values, strict=True)
    ]


def check_readable(table: DeltaTable, what: str) -> None:
    """Raises `ConfigurationError` for a table whose files do not hold its rows as they are."""
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise ConfigurationError(
            f"{what}: the table maps its columns to other names (delta.columnMapping.mode), which is not supported; "
            "read a copy without that"
        )
    if "deletionVectors" in (table.protocol().reader_features or ()) and pa.table(table.deletion_vectors()).num_rows:
        raise _deleted_rows(what)


class TableLog:
    """Reads the log version by version."""

    def __init__(self, place: DeltaPlace, what: str) -> None:
        self._place = place
        self._what = what

    def after(self, version: int, limit: int) -> Iterator[LogEntry]:
        """What the versions behind this one did, in order, at most `limit`.

        Raises `ConfigurationError` if the log does not reach back that far any more.
        """
        for number in range(version + 1, version + 1 + limit):
            path = self._place.full(f"{LOG}/{number:020d}.json")
            try:
                text = self._place.objects.read(path)
            except ObjectNotFoundError:
                self._check_not_cleaned(number)
                return
            yield self._entry(number, text.decode())

    def _check_not_cleaned(self, number: int) -> None:
        """An entry is missing because it is not written yet, or because it is behind a checkpoint and was removed."""
        try:
            last = json.loads(self._place.objects.read(self._place.full(f"{LOG}/_last_checkpoint")))["version"]
        except ObjectNotFoundError:
            if self._place.objects.list(self._place.full(LOG)):
                return
            raise StorageError(f"{self._what}: the table's {LOG} is gone; restore it") from None
        if last >= number and self._place.objects.size_bytes(self._place.full(f"{LOG}/{number:020d}.json")) is None:
            raise ConfigurationError(
                f"{self._what}: version {number} of the table is not in its log any more, so the files it added are "
                "not known. Start the job from scratch, which reads the whole table; and set the table's property "
                "delta.logRetentionDuration longer than a job may be down"
            )

    def _entry(self, number: int, text: str) -> LogEntry:
        files: list[TableFile] = []
        operation = "a change"
        removes = False
        schema: str | None = None
        # Not splitlines: texts of statistics may hold other separators of lines as they are.
        for line in filter(None, text.split("\n")):
            action: dict[str, Any] = json.loads(line)
            if "commitInfo" in action:
                operation = str(action["commitInfo"].get("operation", operation))
            elif "remove" in action:
                removes = removes or bool(action["remove"].get("dataChange", True))
            elif "metaData" in action:
                schema = action["metaData"]["schemaString"]
            elif "add" in action and action["add"].get("dataChange", True):
                added = action["add"]
                removes = removes or bool(added.get("deletionVector"))
                files.append(TableFile(_name(added["path"], self._what), dict(added.get("partitionValues") or {})))
        return LogEntry(number, tuple(files), operation if removes else None, schema)


def _name(path: str, what: str) -> str:
    """The name of a file that the log names in the way of URLs."""
    if path.startswith("/") or "://" in path:
        raise ConfigurationError(f"{what}: the table has a file elsewhere, {path}, as clones do; read the original")
    return unquote(path)


def _deleted_rows(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what}: the table marks rows in its files as deleted (deletion vectors), which is not supported; run "
        "OPTIMIZE or REORG TABLE ... APPLY (PURGE) first, and set delta.enableDeletionVectors to false"
    )
