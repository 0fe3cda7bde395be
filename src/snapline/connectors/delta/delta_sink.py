"""Delta tables as a sink: writers add files, and one commit per checkpoint names them all in the table's log."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from snapline.config import Path as AnyPath
from snapline.config import Size, StorageOptionsLike, size_bytes
from snapline.connectors.delta.delta_commit import DeltaCommitter, app_id
from snapline.connectors.delta.delta_files import DataFiles
from snapline.connectors.delta.delta_place import DeltaPlace
from snapline.connectors.delta.delta_table import TableRules, arrow_schema, plain_schema
from snapline.connectors.delta.delta_types import Fit, check_partition_columns, fitted, stored_schema
from snapline.contracts.sink import CommitScope, GlobalCommitter, Sink, SinkContext, SinkWriter
from snapline.errors import ConfigurationError, TransientError, UserCodeError

MODES = ("append", "upsert")
NEW_COLUMNS = ("add", "fail")


class Delta(Sink):
    """Writes a Delta table, exactly once: one version of the table per checkpoint that has rows.

    mode: "append" adds all rows; "upsert" replaces the row with the same `key`, or adds one.
    key: the columns that tell rows apart, for "upsert". Within a checkpoint the last row of a key counts; send equal
        keys to the same subtask with `key_by`, or it is not defined which one is the last.
    partition_by: columns by which a new table is partitioned; None takes those of the table.
    new_columns: what happens if the rows have columns that the table lacks: "add" them, or "fail" at the start.
    create: create the table if there is none.
    description, properties: of a table that is created, such as {"delta.logRetentionDuration": "interval 1 days"}.
    max_file_size: a larger file is closed and the same checkpoint continues in another one.
    storage_options: how to reach remote storage, such as `sl.S3(...)`.
    """

    commit_scope = CommitScope.JOB

    def __init__(
        self,
        path: AnyPath,
        *,
        mode: str = "append",
        key: Sequence[str] | str = (),
        partition_by: Sequence[str] | str | None = None,
        new_columns: str = "add",
        create: bool = True,
        description: str | None = None,
        properties: Mapping[str, str] | None = None,
        max_file_size: Size = "128mb",
        storage_options: StorageOptionsLike | None = None,
    ) -> None:
        self._place = DeltaPlace(path, storage_options)
        what = f"Delta({self._place.path!r})"
        if mode not in MODES:
            raise ConfigurationError(f"{what}: mode={mode!r}; use one of {', '.join(map(repr, MODES))}")
        if new_columns not in NEW_COLUMNS:
            raise ConfigurationError(
                f"{what}: new_columns={new_columns!r}; use one of {', '.join(map(repr, NEW_COLUMNS))}"
            )
        keys = (key,) if isinstance(key, str) else tuple(key)
        if (mode == "upsert") != bool(keys):
            problem = "needs key=[...], the columns that tell rows apart" if not keys else "has no use for key="
            raise ConfigurationError(f"{what}: mode={mode!r} {problem}")
        self._max_file_bytes = size_bytes(max_file_size, setting="max_file_size")
        if self._max_file_bytes == 0:
            raise ConfigurationError(f'{what}: max_file_size={max_file_size!r}; use more, for example "128mb"')
        partitions = (partition_by,) if isinstance(partition_by, str) else partition_by
        self._rules = TableRules(
            what,
            mode,
            keys,
            None if partitions is None else tuple(partitions),
            new_columns == "add",
            create,
            description,
            dict(properties or {}),
        )
        self._schema: pa.Schema | None = None

    def check(self, schema: pa.Schema) -> None:
        what = self._rules.what
        rows = stored_schema(schema, what)
        for name in self._rules.key:
            if name not in rows.names:
                raise ConfigurationError(f"{what}: key names {name!r}, which is not a column of the rows")
            if pa.types.is_nested(rows.field(name).type):
                raise ConfigurationError(
                    f"{what}: the key {name!r} is of type {rows.field(name).type}; use a plain one"
                )
        check_partition_columns(self._rules.partition_by or (), rows, what)
        self._schema = rows

    def check_access(self) -> None:
        try:
            self._place.find()
        except TransientError as error:
            raise ConfigurationError(str(error)) from error
        if self._place.is_local:
            self._check_directory()

    def _check_directory(self) -> None:
        place = Path(self._place.path)
        try:
            # Nothing is left behind: the directory is to belong to whoever writes, perhaps not the user of the driver.
            while not place.exists():
                place = place.parent
            for directory in (place, place / "_delta_log"):
                if directory.exists():
                    probe = directory / f".probe-{secrets.token_hex(8)}"
                    probe.mkdir()
                    probe.rmdir()
        except OSError as error:
            raise ConfigurationError(
                f"{self._rules.what}: {os.strerror(error.errno or 0)}: {error.filename}; use a directory that the "
                "driver and all executors share and may write to"
            ) from error

    def starting(self, job_id: str) -> None:
        """Create the table, or check it and add new columns."""
        if self._schema is not None:
            self._rules.ready(self._place, self._schema)

    def committed_until(self, lineage: str, uid: str) -> int | None:
        table = self._place.find()
        return None if table is None else table.transaction_version(app_id(lineage, uid))

    def writer(self, context: SinkContext) -> SinkWriter:
        return DeltaWriter(self._place, self._rules, context, self._max_file_bytes)

    def global_committer(self, context: SinkContext) -> GlobalCommitter:
        return DeltaCommitter(self._place, self._rules, context)


class DeltaWriter(SinkWriter):
    """Writes the files of one subtask."""

    def __init__(self, place: DeltaPlace, rules: TableRules, context: SinkContext, max_file_bytes: int) -> None:
        self._place = place
        self._rules = rules
        self._context = context
        self._max_file_bytes = max_file_bytes
        self._next_checkpoint = 0
        self._merged_bytes = 0
        self._fit: Fit | None = None
        self._files: DataFiles | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._files is None or self._fit is None or self._fit.given != batch.schema:
            self._begin(batch.schema)
        assert self._files is not None
        assert self._fit is not None
        rows = self._fit.apply(batch)
        for name in self._rules.key:
            if rows.column(name).null_count:
                raise UserCodeError(
                    f"{self._rules.what}: a row has no value in the key column {name!r}; filter such rows out"
                )
        self._files.write(rows, self._next_checkpoint)
        if self._rules.mode == "upsert":
            self._merged_bytes += rows.nbytes

    @property
    def kept_bytes(self) -> int:
        """Of rows that a merge will read."""
        return self._merged_bytes

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        self._next_checkpoint = checkpoint_id + 1
        self._merged_bytes = 0
        files = [] if self._files is None else self._files.finish()
        if not files:
            return ()
        assert self._fit is not None
        return [
            {
                "app": app_id(self._context.lineage, self._context.uid),
                "mode": self._rules.mode,
                "schema": plain_schema(self._fit.target),
                "files": files,
            }
        ]

    def abort_newer(self, checkpoint_id: int) -> None:
        """Only notes what newer files belong to; the committer deletes those of older attempts."""
        self._next_checkpoint = max(self._next_checkpoint, checkpoint_id + 1)

    def close(self) -> None:
        if self._files is not None:
            files, self._files = self._files, None
            files.abandon()

    def _begin(self, given: pa.Schema) -> None:
        """Find out how the table holds these rows."""
        if self._files is not None:
            raise UserCodeError(f"{self._rules.what}: the columns of the rows have changed from one batch to another")
        table = self._place.open()
        rows = stored_schema(given, self._rules.what)
        target, _ = fitted(rows, arrow_schema(table), self._rules.what, may_add=self._rules.may_add)
        self._fit = Fit(given, target, self._rules.what)
        self._files = DataFiles(
            self._place,
            self._context,
            target,
            table.metadata().partition_columns,
            self._max_file_bytes,
            is_staged=self._rules.mode == "upsert",
        )
