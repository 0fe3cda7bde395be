"""A PySpark data source as a sink."""

from __future__ import annotations

import logging
import os
import pickle
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa

from snapline.config import Path as AnyPath
from snapline.connectors.data_source.late_pyspark import data_source_types
from snapline.connectors.data_source.message_journal import MessageJournal
from snapline.connectors.data_source.user_data_source import Options, UserDataSource
from snapline.connectors.data_source.write_thread import WriteThread
from snapline.contracts.schemas import conform
from snapline.contracts.sink import (
    CommitResult,
    CommitScope,
    Committable,
    GlobalCommitter,
    Permit,
    Sink,
    SinkContext,
    SinkWriter,
)
from snapline.errors import ConfigurationError, UserCodeError, is_of_environment
from snapline.text import error_text, shortened
from snapline.types import NO_CHECKPOINT

_log = logging.getLogger(__name__)


class DataSource(Sink):
    """Writes with the `streamWriter` of a data source that is written for PySpark.

    Each subtask calls `write` once for its rows of a checkpoint, while they come; Arrow writers get batches. The
    messages that it returns are kept in the checkpoint, and `commit(messages, batch id)` is called once on the driver
    when that is complete. The id of the batch is that of the checkpoint: ids rise, and none is used twice unless the
    job starts from scratch. A new driver may commit the last messages again with their ids, as in Spark: a `commit`
    that leaves out ids up to the newest it has seen makes the sink exactly once.

    options: what the data source gets as its `options`; values may be `Secret`.
    overwrite: handed to `streamWriter`, as Spark does for the output mode "complete".
    directory: shared by the driver and all executors; messages are kept there too until they are committed, so that
        `abort(messages, batch id)` can be called for those that never will be. On Spark it is beside the checkpoints
        unless these are in an object store; without a directory `abort` is never called.
    """

    commit_scope = CommitScope.DRIVER

    def __init__(
        self,
        source: Any,
        options: Options | None = None,
        *,
        overwrite: bool = False,
        directory: AnyPath | None = None,
    ) -> None:
        self._user = UserDataSource(source, options, "sinks.DataSource")
        if not self._user.implements("streamWriter"):
            raise ConfigurationError(f"{self._user} has no method streamWriter(); implement it")
        self._overwrite = overwrite
        self._directory = None if directory is None else os.path.abspath(os.fspath(directory).removeprefix("file://"))
        if self._directory is not None and "://" in os.fspath(directory or "").removeprefix("file://"):
            raise ConfigurationError(f"{self._user}: directory={directory!r}: give one of the local file system")
        self._default_directory: str | None = None
        self._schema: pa.Schema | None = None
        self._struct: Any = None
        self._committed: dict[str, int] = {}
        """By lineage and sink, the newest batch that this driver has committed: it need not do that again."""

    def use_directory(self, directory: str | None) -> None:
        """Where to keep messages if the user has given no directory; called when the job starts on Spark."""
        self._default_directory = directory

    def check(self, schema: pa.Schema) -> None:
        self._schema, self._struct = data_source_types().written_schemas(schema, str(self._user))

    def check_access(self) -> None:
        self._user.made()

    def writer(self, context: SinkContext) -> SinkWriter:
        assert self._schema is not None, "check() comes first"
        return _Writer(self._user, self._schema, self._struct, self._overwrite, self._journal(context), context.uid)

    def global_committer(self, context: SinkContext) -> GlobalCommitter:
        journal = self._journal(context)
        return _Committer(self._user, self._struct, self._overwrite, journal, context.uid, self._committed)

    def _journal(self, context: SinkContext) -> MessageJournal | None:
        directory = self._directory or self._default_directory
        return None if directory is None else MessageJournal(Path(directory), context)


class _Writer(SinkWriter):
    """Has a call of `write` under way from the first row behind a barrier to the next barrier."""

    def __init__(
        self,
        user: UserDataSource,
        schema: pa.Schema,
        struct: Any,
        overwrite: bool,
        journal: MessageJournal | None,
        uid: str,
    ) -> None:
        self._user = user
        self._schema = schema
        self._struct = struct
        self._overwrite = overwrite
        self._journal = journal
        self._uid = uid
        self._writing: WriteThread | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writing is None:
            self._writing = WriteThread(self._write, self._uid)
        self._writing.put(conform(batch, self._schema, str(self._user)))

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        writing, self._writing = self._writing, None
        if writing is None:
            return ()
        message = writing.finish()
        if message is not None and not data_source_types().is_message(message):
            raise UserCodeError(f"{self._user}: write() gave {shortened(message)}; it must give a WriterCommitMessage")
        with self._user.calling("pickling the message of write()"):
            pickled: bytes = cloudpickle.dumps(message)
        return [{"message": pickled, "entry": self._kept(checkpoint_id, pickled)}]

    def _kept(self, checkpoint_id: int, message: bytes) -> str:
        """The name of the message in the journal; without it, only an abort may be missing."""
        if self._journal is None:
            return ""
        try:
            return self._journal.keep(checkpoint_id, message)
        except OSError as error:
            _log.warning("sink %s: a message is not kept for aborts: %s", self._uid, error)
            return ""

    def close(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.stop()

    def _write(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """In a thread of its own."""
        with self._user.calling("streamWriter()"):
            writer = self._user.made().streamWriter(self._struct, self._overwrite)
        with self._user.calling("write()"):
            if data_source_types().is_arrow_writer(writer):
                return writer.write(batches)
            rows_of = data_source_types().rows_of
            return writer.write(row for batch in batches for row in rows_of(batch, self._struct))


class _Committer(GlobalCommitter):
    """Commits and aborts on the driver, with a writer made for each call, as Spark does."""

    def __init__(
        self,
        user: UserDataSource,
        struct: Any,
        overwrite: bool,
        journal: MessageJournal | None,
        uid: str,
        committed: dict[str, int],
    ) -> None:
        self._user = user
        self._struct = struct
        self._overwrite = overwrite
        self._journal = journal
        self._uid = uid
        self._committed = committed
        self._aborts: threading.Thread | None = None

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        if self._aborts is not None:
            self._aborts.join()  # the order of Spark: first the batch that failed, then the next
        # Lineage and sink.
        line = committable.name.rsplit("/", 4)[0]
        if committable.checkpoint_id <= self._committed.get(line, NO_CHECKPOINT):
            return CommitResult.ALREADY_COMMITTED
        messages = [self._message(payload, committable.name) for payload in committable.payload]
        try:
            writer = self._writer()
            with self._user.calling("commit()"):
                writer.commit(messages, committable.checkpoint_id)
        except UserCodeError as error:
            if not is_of_environment(error):
                raise
            _log.warning("sink %s: batch %d is committed later: %s", self._uid, committable.checkpoint_id, error)
            return CommitResult.RETRY_LATER
        self._committed[line] = committable.checkpoint_id
        if self._journal is not None:
            for payload in committable.payload:
                self._journal.drop(payload["entry"])
        return CommitResult.COMMITTED

    def abort_newer(self, checkpoint_id: int) -> None:
        if self._journal is not None:
            # The caller must not wait for the user's code.
            abort = threading.Thread(target=self._abort, args=(checkpoint_id,), name=f"abort-{self._uid}", daemon=True)
            self._aborts = abort
            abort.start()

    def close(self) -> None:
        """Aborts that still run end by themselves."""

    def _message(self, payload: Any, name: str) -> Any:
        if not (isinstance(payload, dict) and "message" in payload):
            raise UserCodeError(f"{name} was prepared by another kind of sink; give this one another uid")
        with self._user.calling("unpickling a message of write()"):
            # Of this job's own writers: it comes from them, or from a checkpoint.
            return pickle.loads(payload["message"])  # noqa: S301

    def _writer(self) -> Any:
        with self._user.calling("streamWriter()"):
            return self._user.made().streamWriter(self._struct, self._overwrite)

    def _abort(self, checkpoint_id: int) -> None:
        """A failure is logged, as in Spark: nothing depends on an abort."""
        assert self._journal is not None
        try:
            for batch_id, entries in self._journal.newer(checkpoint_id):
                messages = [pickle.loads(message) for _, message in entries]  # noqa: S301  # of this job's own writers
                self._writer().abort(messages, batch_id)
                for name, _ in entries:
                    self._journal.drop(name)
        except Exception as error:
            _log.warning("sink %s: abort() raised %s", self._uid, error_text(error), exc_info=True)
