"""The connections of one writer or committer, and how the next attempt takes over from the one before."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from snapline.connectors.database.commit_table import CommitRow
from snapline.connectors.postgres.postgres_connection import is_disconnect, load_psycopg
from snapline.connectors.postgres.postgres_table import CopyTarget, PostgresTable, digest
from snapline.contracts.sink import CommitResult, SinkContext
from snapline.errors import FencedError, TransientError

if TYPE_CHECKING:
    from snapline.connectors.postgres.postgres_connection import Connection

_log = logging.getLogger(__name__)

LIMITS = "SET lock_timeout = '10s'; SET statement_timeout = '10min'"
"""For commits: whoever waits longer is better off with another try."""

_WRITE_LIMITS = "SET lock_timeout = '60s'"
_END_TIMEOUT_S = 10.0
_POLL_S = 0.02
_MAX_NAME = 40

_SESSIONS = """
SELECT pid, application_name FROM pg_stat_activity
WHERE usename = current_user AND datname = current_database() AND starts_with(application_name, %s)
"""
_PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)"
_GID = re.compile(
    r"snapline:(?P<job>[^:]*):(?P<uid>[^:]*):(?P<sink>[0-9a-f]+):(?P<subtask>\d+):(?P<attempt>\d+):"
    r"(?P<checkpoint>\d+):(?P<part>\d+)"
)
Result = TypeVar("Result")


class PostgresSession:
    """Connections that say whose they are: the next attempt ends those of attempts before it."""

    def __init__(self, table: PostgresTable, context: SinkContext, role: str = "writer") -> None:
        self.table = table
        self.context = context
        self._sink = digest(context.lineage, context.uid)
        self._application = f"snapline {self._sink} {context.attempt} {role} {context.subtask}"
        self._commits: Connection | None = None
        self._is_pruned = False

    # Names.

    @property
    def gid_of_sink(self) -> str:
        """What the names of all prepared transactions of this sink and lineage begin with."""
        return f"{self._gid_of_job}{self._sink}:"

    @property
    def _gid_of_job(self) -> str:
        return f"snapline:{_plain(self.context.job_id)}:{_plain(self.context.uid)}:"

    def gid(self, checkpoint_id: int, part: int) -> str:
        """The name of a prepared transaction, under 200 bytes."""
        return f"{self.gid_of_sink}{self.context.subtask}:{self.context.attempt}:{checkpoint_id}:{part}"

    def row(self, checkpoint_id: int, part: int = 0) -> CommitRow:
        """The row of commits for what this writer prepares."""
        context = self.context
        return CommitRow(context.lineage, context.uid, context.subtask, context.attempt, checkpoint_id, part)

    # Connections.

    def open(self) -> Connection:
        """A connection to write with; `FencedError` if a newer attempt has begun."""
        connection = self.table.address.connect_to_copy(application=self._application)
        try:
            with self.table.address.errors("looking at the table of commits"), connection.cursor() as cursor:
                cursor.execute(_WRITE_LIMITS)
                # After the connection can be seen: either the newer attempt ends it, or it finds the fence.
                newest = self.table.commits.newest_attempt(cursor, self.context.lineage, self.context.uid)
        except BaseException:
            connection.close()
            raise
        if newest > self.context.attempt:
            connection.close()
            raise FencedError(
                f"{self.table.call}: attempt {newest} of the job writes now, and this is {self.context.attempt}",
                attempt=self.context.attempt,
                current=newest,
            )
        return connection

    def in_commit(self, action: Callable[[Connection], Result]) -> Result | CommitResult:
        """Run `action` with the connection for commits; RETRY_LATER, with a line in the log, for what may heal.

        A connection that was lost since the last time is replaced once, so `action` must bear to be repeated.
        """
        psycopg = load_psycopg()
        is_old = self._commits is not None
        try:
            try:
                return action(self._connection())
            except psycopg.Error as error:
                was_idle = is_old and (is_disconnect(error) or getattr(error, "sqlstate", None) == "57P01")
                self._drop()
                if not was_idle:
                    raise
            return action(self._connection())
        except psycopg.Error as error:
            self._drop()
            explained = self.table.address.explained(error, "the commit")
            if not isinstance(explained, TransientError):
                raise explained from error
            _log.warning("%s; it is tried again", explained)
        except TransientError as error:
            self._drop()
            _log.warning("%s; the commit is tried again", error)
        return CommitResult.RETRY_LATER

    def _connection(self) -> Connection:
        if self._commits is None or self._commits.closed:
            connection = self._connect(self._application)
            connection.execute(LIMITS)
            self._commits = connection
        return self._commits

    def _connect(self, application: str) -> Connection:
        return self.table.address.connect(application=application, autocommit=True, is_running=True)

    def _drop(self) -> None:
        connection, self._commits = self._commits, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the connection for commits."""
        self._drop()

    def copy_target(self, schema: pa.Schema) -> CopyTarget:
        """How rows of this schema are copied into the table."""
        with self._connect(self._application) as connection:
            return CopyTarget(self.table.quoted, schema, self.table.columns(connection))

    # The table of commits.

    def settle(self, connection: Connection, row: CommitRow) -> None:
        """After a commit: keep the table of commits small. If that fails, the next one makes up for it."""
        if self.is_own(row):
            with self._clearing(), connection.transaction(), connection.cursor() as cursor:
                self.table.commits.compact(cursor, row)
        self.prune(connection, row)

    def prune(self, connection: Connection, row: CommitRow) -> None:
        """After a commit: drop the rows of older attempts, once that may be. If it fails, the next one tries again."""
        if self._is_pruned or not self.is_own(row):
            return
        with self._clearing(), self.table.unique_names(), connection.transaction(), connection.cursor() as cursor:
            self._is_pruned = self.table.commits.prune(cursor, row, self.context.parallelism)

    def is_own(self, row: CommitRow) -> bool:
        """Whether this attempt has prepared what the row names."""
        own = self.context
        return (row.lineage, row.uid, row.attempt) == (own.lineage, own.uid, own.attempt)

    @contextmanager
    def _clearing(self) -> Iterator[None]:
        try:
            yield
        except load_psycopg().Error as error:
            _log.warning("%s", self.table.address.explained(error, "clearing up the table of commits"))

    # Taking over.

    def take_over(self, checkpoint_id: int) -> None:
        """End what older attempts are doing, and roll back what they prepared for checkpoints after this one."""
        address = self.table.address
        connection = self._connect(f"snapline {self._sink} takes over")
        with connection, address.errors("taking over from older attempts"):
            self.table.make_commits(connection)
            with self.table.unique_names(), connection.transaction(), connection.cursor() as cursor:
                self.table.commits.fence(cursor, self.context.lineage, self.context.uid, self.context.attempt)
            self._end_sessions(connection)
            for gid in self._leftovers(connection, checkpoint_id):
                self._roll_back(connection, gid)

    def _end_sessions(self, connection: Connection) -> None:
        deadline_s = time.monotonic() + _END_TIMEOUT_S
        while old := self._old_sessions(connection):
            for pid in old:
                connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
            if time.monotonic() > deadline_s:
                raise TransientError(
                    f"{self.table.call}: sessions of older attempts do not end within {_END_TIMEOUT_S:g} s of "
                    f"pg_terminate_backend: {old}; end them at the server"
                )
            time.sleep(_POLL_S)

    def _old_sessions(self, connection: Connection) -> list[int]:
        prefix = f"snapline {self._sink} "
        found = connection.execute(_SESSIONS, (prefix,)).fetchall()
        attempts = [(pid, name.removeprefix(prefix).partition(" ")[0]) for pid, name in found]
        return [pid for pid, number in attempts if number.isdigit() and int(number) < self.context.attempt]

    def _leftovers(self, connection: Connection, checkpoint_id: int) -> list[str]:
        gids = [row[0] for row in connection.execute(_PREPARED, (self._gid_of_job,)).fetchall()]
        others = [gid for gid in gids if not gid.startswith(self.gid_of_sink)]
        if others and self.context.subtask == 0:
            _log.warning(
                "%s: transactions that other starts of the job %s have prepared are still open: %s. They hold locks "
                "and keep vacuum from its work. If you will never go back to the checkpoints of those starts: ROLLBACK "
                "PREPARED '<name>'",
                self.table.call,
                self.context.job_id,
                ", ".join(sorted(others)[:10]),
            )
        matches = [(gid, _GID.fullmatch(gid)) for gid in gids if gid.startswith(self.gid_of_sink)]
        return [
            gid
            for gid, match in matches
            if match and int(match["attempt"]) < self.context.attempt and int(match["checkpoint"]) > checkpoint_id
        ]

    def _roll_back(self, connection: Connection, gid: str) -> None:
        psycopg = load_psycopg()
        try:
            connection.execute(psycopg.sql.SQL("ROLLBACK PREPARED {}").format(psycopg.sql.Literal(gid)))
        except psycopg.errors.UndefinedObject:
            _log.debug("another subtask has rolled back %s", gid)


def is_gid(text: Any) -> bool:
    """Whether this names a transaction that a sink of ours has prepared."""
    return isinstance(text, str) and _GID.fullmatch(text) is not None


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name[:_MAX_NAME])
