"""Delta tables as a source: the rows of one version, and those that later versions add."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from snapline.config import Duration, StorageOptionsLike, duration_ms
from snapline.config import Path as AnyPath
from snapline.connectors.delta.delta_log import LogEntry, TableFile, TableLog, check_readable, files_of
from snapline.connectors.delta.delta_place import DeltaPlace
from snapline.connectors.delta.delta_rows import DeltaReader, partition_row
from snapline.connectors.delta.delta_table import arrow_schema
from snapline.connectors.delta.delta_types import stored_type
from snapline.connectors.files.file_formats import row_groups
from snapline.contracts.source import ReaderContext, Source, SourceReader, Split
from snapline.errors import ConfigurationError, RestoreError, TransientError

MAX_VERSIONS = 1000
"""Versions of the table that one look at its log takes in."""

Conditions: TypeAlias = Sequence[tuple[str, str, Any] | Sequence[tuple[str, str, Any]]]
"""Conditions of which all hold, or lists of such of which one holds: `[("day", ">=", "2026-01-01")]`."""

_ON_CHANGE = ("fail", "ignore")
_PARTS_PER_SUBTASK = 4


class Delta(Source):
    """Reads a Delta table: one version of it, or with `follow` also every row that is added later.

    version: the version to read; None is the newest one when the job first starts.
    follow: go on with the files that later versions add; the source never ends.
    poll: how often to look for later versions.
    snapshot: with `follow`, whether to begin with all rows of `version`; False reads only what is added after it.
    columns: those to read; None reads all that the table has when the source is made.
    filter: conditions such as [("country", "=", "NL"), ("amount", ">", 10)], which rows must meet. Files of other
        partitions are not opened.
    on_change: what happens with `follow` if a later version deletes or rewrites rows: it is an error ("fail"), or the
        source skips that version ("ignore"). Versions that only rearrange files (OPTIMIZE) are always skipped.
    storage_options: how to reach remote storage, such as `sl.S3(...)`.
    """

    in_step = False

    def __init__(
        self,
        path: AnyPath,
        *,
        version: int | None = None,
        follow: bool = False,
        poll: Duration = "1s",
        snapshot: bool = True,
        columns: Sequence[str] | None = None,
        filter: Conditions | None = None,
        on_change: str = "fail",
        storage_options: StorageOptionsLike | None = None,
    ) -> None:
        self._place = DeltaPlace(path, storage_options)
        self._what = f"Delta({self._place.path!r})"
        if on_change not in _ON_CHANGE:
            raise ConfigurationError(f"{self._what}: on_change={on_change!r}; use 'fail' or 'ignore'")
        if version is not None and (not isinstance(version, int) or version < 0):
            raise ConfigurationError(f"{self._what}: version={version!r}; give the number of a version, or None")
        if not snapshot and not follow:
            raise ConfigurationError(f"{self._what}: snapshot=False reads nothing without follow=True")
        self._poll_ms = duration_ms(poll, setting="poll")
        if self._poll_ms == 0:
            raise ConfigurationError(f'{self._what}: poll={poll!r}; the interval must be positive, for example "1s"')
        self._version = version
        self._follow = follow
        self._snapshot = snapshot
        self._ignores_changes = on_change == "ignore"
        table = self._opened()
        self._version_found = table.version()
        check_readable(table, self._what)
        self._partition_by = tuple(table.metadata().partition_columns)
        everything = _readable(arrow_schema(table), self._what)
        self._schema = everything if columns is None else _selected(everything, columns, self._what)
        self._conditions = _conditions(filter, everything, self._what)
        self._everything = everything

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return not self._follow

    @property
    def discovery_interval_ms(self) -> int | None:
        return self._poll_ms if self._follow else None

    def splits(self, parallelism: int) -> Sequence[Split]:
        """One split per file; few files are split further into ranges of row groups."""
        if self._follow:
            return ()
        files = self._wanted(files_of(self._opened(), self._what))
        parts = -(-_PARTS_PER_SUBTASK * parallelism // max(len(files), 1))
        return [split for file in files for split in self._parts(file, parts)]

    def discover(self, known: Any) -> tuple[Sequence[Split], Any]:
        """The files that versions after the known one added; the first time those of the whole table."""
        if known is None:
            table = self._opened()
            files = files_of(table, self._what) if self._snapshot else []
            return [_split(file) for file in self._wanted(files)], {"version": table.version()}
        if not (isinstance(known, dict) and "version" in known):
            raise RestoreError(f"{known!r} is not a position of Delta; was the snapshot taken with another source?")
        found: list[TableFile] = []
        version = known["version"]
        for entry in TableLog(self._place, self._what).after(version, MAX_VERSIONS):
            version = entry.version
            if self._is_taken(entry):
                found += self._wanted(entry.files)
        return [_split(file) for file in found], {"version": version}

    def reader(self, context: ReaderContext) -> SourceReader:
        return DeltaReader(self._place, self._schema, self._everything, self._partition_by, self._conditions)

    def _opened(self) -> Any:
        try:
            return self._place.open(self._version)
        except TransientError as error:
            raise ConfigurationError(str(error)) from error

    def _is_taken(self, entry: LogEntry) -> bool:
        if entry.schema is not None:
            self._check_schema(entry)
        if entry.changes is None or self._ignores_changes:
            return entry.changes is None
        raise ConfigurationError(
            f"{self._what}: version {entry.version} of the table deletes or rewrites rows ({entry.changes}), and a "
            'source can only follow what is added. Skip such versions with on_change="ignore"; or start from scratch, '
            "which reads the newest version"
        )

    def _check_schema(self, entry: LogEntry) -> None:
        """New columns do not matter; those that are read must stay."""
        from deltalake import Schema

        now = pa.schema(Schema.from_json(entry.schema or "").to_arrow())
        for field in self._schema:
            there = now.field(field.name).type if field.name in now.names else None
            if there is None or stored_type(there) != field.type:
                raise ConfigurationError(
                    f"{self._what}: version {entry.version} of the table has the column {field.name!r} "
                    f"{'no more' if there is None else f'as {there}, not {field.type}'}; start from a savepoint with "
                    "columns= that fit, or from scratch"
                )

    def _wanted(self, files: Sequence[TableFile]) -> Sequence[TableFile]:
        """The files whose partition may have rows that meet the conditions."""
        if not self._conditions:
            return files
        of_partition = [
            [condition for condition in group if condition[0] in self._partition_by] for group in self._conditions
        ]
        if not all(of_partition):
            return files
        expression = pq.filters_to_expression(of_partition)
        return [
            file
            for file in files
            if partition_row(file.partition, self._partition_by, self._everything).filter(expression).num_rows
        ]

    def _parts(self, file: TableFile, parts: int) -> list[Split]:
        """At most `parts` splits of a file."""
        if parts <= 1:
            return [_split(file)]
        groups = row_groups(self._place.full(file.name), self._place.options)
        parts = max(min(parts, groups), 1)
        ends = [groups * part // parts for part in range(parts + 1)]
        return [{**_split(file), "groups": [first, end]} for first, end in pairwise(ends)]


def _split(file: TableFile) -> dict[str, Any]:
    return {"path": file.name, "groups": None, "partition": dict(file.partition)}


def _readable(schema: pa.Schema, what: str) -> pa.Schema:
    fields = []
    for field in schema:
        type_ = stored_type(field.type)
        if type_ is None:
            raise ConfigurationError(f"{what}: the column {field.name!r} is of type {field.type}, which is not known")
        fields.append(pa.field(field.name, type_))
    return pa.schema(fields)


def _selected(everything: pa.Schema, columns: Sequence[str], what: str) -> pa.Schema:
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in everything.names:
            raise ConfigurationError(
                f"{what}: columns names {name!r}; the table has {', '.join(map(repr, everything.names))}"
            )
    if not names:
        raise ConfigurationError(f"{what}: columns=[] reads nothing; name at least one")
    return pa.schema([everything.field(name) for name in names])


def _conditions(given: Conditions | None, schema: pa.Schema, what: str) -> list[list[tuple[str, str, Any]]]:
    """The conditions as lists of which one holds; checked against the columns."""
    if not given:
        return []
    groups: Any = [given] if isinstance(given[0], tuple) else given
    try:
        conditions = [[(str(name), str(operator), value) for name, operator, value in group] for group in groups]
        pa.RecordBatch.from_pylist([], schema=schema).filter(pq.filters_to_expression(conditions))
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise ConfigurationError(
            f"{what}: filter={given!r}: {error}; give conditions such as [('amount', '>', 10)] on columns of the table"
        ) from error
    return conditions
