"""One commit to the table per checkpoint, with the table's own record of how far the job is.

The record is an application transaction of Delta: an id, here one of the job's lineage and sink, and a version, here
the checkpoint. Each commit reads the newest state of the table, compares, and writes the very next version of the log
or nothing. So of two processes that commit at the same moment one fails, reads again and finds the other's record.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from snapline.connectors.delta.delta_files import FileName, origin_of
from snapline.connectors.delta.delta_place import STAGED, DeltaPlace, MissingTableError, is_of_storage, load_deltalake
from snapline.connectors.delta.delta_table import TableRules, arrow_schema
from snapline.connectors.delta.delta_types import fitted
from snapline.contracts.sink import CommitResult, Committable, GlobalCommitter, Permit, SinkContext
from snapline.errors import ObjectNotFoundError, RestoreError, StorageError, TransientError, UserCodeError

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAX_CONFLICTS = 20
"""How often a commit starts over at once because somebody else has written the table; then it waits."""

MAX_SILENT_RETRIES = 5
"""How often a commit that storage refuses is only logged; then the job fails over with the reason."""

_log = logging.getLogger(__name__)


def app_id(lineage: str, uid: str) -> str:
    """The id under which the table records how far a sink is in a lineage."""
    return f"snapline/{lineage}/{uid}"


class DeltaCommitter(GlobalCommitter):
    """Commits the files of all writers in one version of the table."""

    def __init__(self, place: DeltaPlace, rules: TableRules, context: SinkContext) -> None:
        self._place = place
        self._rules = rules
        self._context = context
        self._table: DeltaTable | None = None

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        payloads: Sequence[Mapping[str, Any]] = committable.payload
        self._check_paths(committable.name, payloads)
        try:
            return self._commit(committable.checkpoint_id, committable.name, payloads)
        except MissingTableError as error:
            raise UserCodeError(
                f"{error}. It was there when the job started: bring it back, and the job commits to it; or start the "
                "job anew"
            ) from None
        except (TransientError, StorageError) as error:
            self._table = None
            if committable.retries >= MAX_SILENT_RETRIES:
                raise
            _log.warning("the commit of %s is tried again: %s", committable.name, error)
            return CommitResult.RETRY_LATER

    def _commit(self, checkpoint_id: int, name: str, payloads: Sequence[Mapping[str, Any]]) -> CommitResult:
        # The lineage that prepared it, which after a start from a savepoint is not this one.
        app = payloads[0]["app"]
        conflicts = load_deltalake().exceptions.CommitFailedError
        for _ in range(MAX_CONFLICTS):
            table = self._newest()
            done = table.transaction_version(app)
            if done is not None and done >= checkpoint_id:
                self._remove_staged(payloads)
                return CommitResult.ALREADY_COMMITTED
            try:
                self._rules.make_room(table, _schemas(payloads))
                if payloads[0]["mode"] == "append":
                    self._append(table, app, checkpoint_id, payloads)
                else:
                    self._merge(table, app, checkpoint_id, payloads)
            except conflicts as error:
                _log.info("the table %s was changed during the commit of %s: %s", self._place, name, error)
            except _MissingFileError as error:
                self._explain_missing(error, app, checkpoint_id, name)
            except Exception as error:
                if not is_of_storage(error):
                    raise
                # It may have taken effect; the next try sees whether it has.
                self._table = None
                raise self._place.failed(f"could not take {name}", error) from error
            else:
                self._remove_staged(payloads)
                return CommitResult.COMMITTED
        _log.warning("others write the table %s all the time; the commit of %s waits", self._place, name)
        return CommitResult.RETRY_LATER

    def _newest(self) -> DeltaTable:
        if self._table is None:
            self._table = self._place.open()
        else:
            with self._place.explained("cannot be read"):
                self._table.update_incremental()
        return self._table

    # Append.

    def _append(self, table: DeltaTable, app: str, checkpoint_id: int, payloads: Sequence[Mapping[str, Any]]) -> None:
        from deltalake.transaction import AddAction

        files = [file for payload in payloads for file in payload["files"]]
        for file in files:
            # A version that names a file that is gone could not be read by anybody.
            if self._place.objects.size_bytes(self._place.full(file["path"])) != file["size"]:
                raise _MissingFileError(file["path"])
        table.create_write_transaction(
            [
                AddAction(file["path"], file["size"], file["partition"], file["time"], True, file["stats"])
                for file in files
            ],
            "append",
            table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=_properties(app, checkpoint_id),
        )

    # Upsert.

    def _merge(self, table: DeltaTable, app: str, checkpoint_id: int, payloads: Sequence[Mapping[str, Any]]) -> None:
        target = arrow_schema(table)
        rows = self._last_rows(target, payloads)
        matches = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in self._rules.key)
        columns = {_quoted(name): f"s.{_quoted(name)}" for name in rows.schema.names}
        merger = table.merge(
            rows,
            matches,
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            commit_properties=_properties(app, checkpoint_id),
        )
        merger.when_matched_update(columns).when_not_matched_insert(columns).execute()

    def _last_rows(self, target: pa.Schema, payloads: Sequence[Mapping[str, Any]]) -> pa.Table:
        """The last row of each key, of the last subtask if several have it."""
        parts = []
        for payload in payloads:
            schema, _ = fitted(_schema(payload), target, self._rules.what, may_add=False)
            for file in payload["files"]:
                part = self._read(file["path"])
                parts.append(part.select(schema.names).cast(pa.schema([field.with_nullable(True) for field in schema])))
        rows = pa.concat_tables(parts, promote_options="default")
        place = "__place"
        numbered = rows.append_column(place, pa.array(np.arange(rows.num_rows)))
        last = numbered.group_by(list(self._rules.key), use_threads=False).aggregate([(place, "max")])
        return rows.take(last[f"{place}_max"].combine_chunks().sort())

    def _read(self, name: str) -> pa.Table:
        try:
            with self._place.objects.open(self._place.full(name)) as file:
                return pq.read_table(pa.PythonFile(file))
        except (ObjectNotFoundError, FileNotFoundError) as error:
            raise _MissingFileError(name) from error

    # Files.

    def _check_paths(self, name: str, payloads: Sequence[Mapping[str, Any]]) -> None:
        """Raise `RestoreError` for anything that no writer names a file.

        It comes from a snapshot, which others may have written: no other file may get into the table, or be deleted.
        """
        for payload in payloads:
            if payload.get("mode") != self._rules.mode:
                raise RestoreError(
                    f"{name} was prepared with Delta(mode={payload.get('mode')!r}), and the sink is now "
                    f"mode={self._rules.mode!r}; start once with the old mode and stop with a savepoint"
                )
            for file in payload["files"]:
                path = file["path"]
                if FileName.parse(path) is None or ".." in path.split("/") or path.startswith("/"):
                    raise RestoreError(f"{name} does not name a file that this sink has written, but {path!r}")

    def _explain_missing(self, error: _MissingFileError, app: str, checkpoint_id: int, name: str) -> None:
        """Returns if another process has committed it and removed its files; raises otherwise."""
        done = self._newest().transaction_version(app)
        if done is None or done < checkpoint_id:
            raise RestoreError(
                f"{name} cannot be committed: its file {error.path} is not in {str(self._place)!r}. Either the sink "
                "has another path now: start once with the old one and stop with a savepoint. Or somebody has deleted "
                "it (VACUUM with a short retention does): then its rows are lost, unless the job starts from an older "
                "snapshot"
            ) from None

    def _remove_staged(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        names = [file["path"] for payload in payloads for file in payload["files"]]
        if staged := [self._place.full(name) for name in names if name.startswith(f"{STAGED}/")]:
            self._place.objects.delete(staged)

    def abort_newer(self, checkpoint_id: int) -> None:
        """Delete files of older attempts that no checkpoint up to this one can hold.

        In remote storage only staged ones: the others would have to be searched in the whole table, and VACUUM removes
        them.
        """
        origin = origin_of(self._context.lineage, self._context.uid)
        waste = [name for name in self._candidates(origin) if self._is_waste(name, origin, checkpoint_id)]
        if not waste:
            return
        # What the table names stays, whatever its name says.
        kept = set(pa.table(self._newest().get_add_actions())["path"].to_pylist())
        self._place.objects.delete(self._place.full(name) for name in waste if name not in kept)

    def _is_waste(self, name: str, origin: str, checkpoint_id: int) -> bool:
        found = FileName.parse(name)
        return (
            found is not None
            and found.origin == origin
            and found.attempt < self._context.attempt
            and found.first_checkpoint > checkpoint_id
        )

    def _candidates(self, origin: str) -> Iterable[str]:
        start = len(self._place.path) + 1
        if self._rules.mode == "upsert":
            for info in self._place.objects.list(self._place.full(f"{STAGED}/{origin}")):
                yield info.path[start:]
        elif self._place.is_local and self._context.attempt > 1:
            for directory, below, names in os.walk(self._place.path):
                below[:] = [name for name in below if not name.startswith(("_", ".")) or "=" in name]
                yield from (f"{directory}/{name}"[start:] for name in names)


class _MissingFileError(Exception):
    """A file that was prepared is not there, or is not what it was."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def _properties(app: str, checkpoint_id: int) -> Any:
    """With no retries of the library: the record must be read again before each try."""
    deltalake = load_deltalake()
    return deltalake.CommitProperties(
        custom_metadata={"snapline": {"writer": app, "checkpoint": checkpoint_id}},
        max_commit_retries=0,
        app_transactions=[deltalake.Transaction(app, checkpoint_id)],
    )


def _schemas(payloads: Sequence[Mapping[str, Any]]) -> list[pa.Schema]:
    return [pa.ipc.read_schema(pa.BufferReader(packed)) for packed in {payload["schema"] for payload in payloads}]


def _schema(payload: Mapping[str, Any]) -> pa.Schema:
    return pa.ipc.read_schema(pa.BufferReader(payload["schema"]))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
