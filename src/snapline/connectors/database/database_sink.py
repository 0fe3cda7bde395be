"""Any database with a Python driver as an exactly-once sink: rows and the table of commits in one transaction."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from snapline.connectors.database.commit_table import DEFAULT_NAME, CommitRow, CommitTable
from snapline.connectors.database.database_driver import (
    DatabaseDriver,
    check_types,
    column_name,
    insert,
    table_name,
)
from snapline.connectors.database.stored_rows import StoredRows, rows_of
from snapline.contracts.sink import CommitResult, Committable, Permit, Sink, SinkContext, SinkWriter
from snapline.errors import ConfigurationError, SnaplineError, TransientError
from snapline.text import error_text

_log = logging.getLogger(__name__)


class Database(Sink):
    """Adds rows to a table of a database, exactly once, through any DB-API or ADBC driver.

    connect: a function without arguments that returns a new connection that is not in autocommit mode. It travels with
        the job, and is called in the driver's process and in those of the subtasks.
    table: the table, as SQL writes it. It must have the columns of the rows.
    commit_table: the table that remembers what is committed; created if it is not there.
    parameter_style: how the driver writes parameters (PEP 249), if its module does not say so.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        table: str,
        *,
        commit_table: str = DEFAULT_NAME,
        parameter_style: str | None = None,
    ) -> None:
        call = f"Database({table!r})"
        self._table = table_name(call, table)
        self._commit_table = table_name(call, commit_table)
        self._driver = DatabaseDriver(call, connect, parameter_style)
        self._schemas: list[pa.Schema] = []
        self._is_checked = False

    def check(self, schema: pa.Schema) -> None:
        check_types(self._driver.call, schema)
        if schema not in self._schemas:
            self._schemas.append(schema)

    def check_access(self) -> None:
        """Connects, creates the table of commits if need be, and asks the table for the columns of the rows.

        A database that is away is an error on the driver only; see `Postgres.check_access`.
        """
        try:
            self._check_access()
        except TransientError as error:
            if not self._is_checked:
                raise
            _log.warning("%s; the job goes on when it answers", error)
        self._is_checked = True

    def _check_access(self) -> None:
        connection = self._driver.connect()
        try:
            self._make_commits(connection)
            self._check_rollback(connection)
            for schema in self._schemas:
                self._check_columns(connection, schema)
        finally:
            connection.close()

    def _check_rollback(self, connection: Any) -> None:
        """Some drivers commit each statement by themselves, whatever they are told: then nothing would be exact."""
        commits = CommitTable(self._commit_table, self._driver.markers(connection))
        probe = CommitRow(f"probe-{secrets.token_hex(8)}", "", 0, 0, 0)
        cursor = connection.cursor()
        try:
            commits.add(cursor, probe, all_before=False)
            connection.rollback()
            is_left = commits.is_committed(cursor, probe)
            connection.rollback()
        except Exception as error:
            raise self._driver.explained(connection, error, f"a trial with the table {self._commit_table}") from error
        if is_left:
            commits.remove(cursor, probe)
            raise ConfigurationError(
                f"{self._driver.call}: a rollback does not take back what was written: the connection is in autocommit "
                "mode; let connect() begin a transaction, or switch autocommit off"
            )

    def _check_columns(self, connection: Any, schema: pa.Schema) -> None:
        names = ", ".join(map(column_name, schema.names))
        cursor = connection.cursor()
        try:
            cursor.execute(f"SELECT {names} FROM {self._table} WHERE 1 = 0")
            cursor.fetchall()
        except Exception as error:
            raise ConfigurationError(
                f"{self._driver.call}: the table cannot take rows with the columns {names} ({error_text(error)}): "
                "create it with these columns, or choose the columns of the rows with select(). A name that SQL "
                "reserves needs quotes: rename the column to '\"order\"'"
            ) from error
        finally:
            connection.rollback()

    def _make_commits(self, connection: Any) -> None:
        commits = CommitTable(self._commit_table, self._driver.markers(connection))
        cursor = connection.cursor()
        try:
            commits.is_there(cursor)
            connection.rollback()
            return
        except Exception as missing:
            connection.rollback()
            first = missing
        try:
            cursor.execute(commits.definition)
            connection.commit()
        except Exception as error:
            connection.rollback()
            try:
                commits.is_there(cursor)  # another process has just created it
            except Exception:
                raise ConfigurationError(
                    f"{self._driver.call}: the table {self._commit_table} can neither be read ({error_text(first)}) "
                    f"nor created ({error_text(error)}): create it with {' '.join(commits.definition.split())}"
                ) from error
            connection.rollback()

    def committed_until(self, lineage: str, uid: str) -> int | None:
        connection = self._driver.connect()
        try:
            self._make_commits(connection)
            commits = CommitTable(self._commit_table, self._driver.markers(connection))
            return commits.committed_until(connection.cursor(), lineage, uid)
        finally:
            connection.close()

    def writer(self, context: SinkContext) -> SinkWriter:
        return DatabaseWriter(self._driver, self._table, self._commit_table, context)


class DatabaseWriter(SinkWriter):
    """Keeps rows until their checkpoint, which then holds them; each part of them is one transaction."""

    def __init__(self, driver: DatabaseDriver, table: str, commit_table: str, context: SinkContext) -> None:
        self._driver = driver
        self._table = table
        self._commit_table = commit_table
        self._context = context
        self._rows = StoredRows()
        self._is_pruned = False

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.add(batch)

    @property
    def kept_bytes(self) -> int:
        return self._rows.size_bytes

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        context = self._context
        writer = [context.lineage, context.uid, context.subtask, context.attempt]
        return [{"row": [*writer, checkpoint_id, part], "rows": rows} for part, rows in enumerate(self._rows.take())]

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        row = CommitRow(*committable.payload["row"])
        try:
            # Another thread may do the next commit, and many drivers bind a connection to its thread.
            connection = self._driver.connect()
        except TransientError as error:
            _log.warning("%s; the commit is tried again", error)
            return CommitResult.RETRY_LATER
        try:
            return self._committed(connection, row, committable.payload["rows"])
        except Exception as error:
            explained = self._driver.explained(connection, error, f"the commit of {committable.name}")
            if not isinstance(explained, TransientError):
                raise explained from error
            _log.warning("%s; it is tried again", explained)
            return CommitResult.RETRY_LATER
        finally:
            connection.close()

    def _committed(self, connection: Any, row: CommitRow, stored: bytes) -> CommitResult:
        markers = self._driver.markers(connection)
        commits = CommitTable(self._commit_table, markers)
        cursor = connection.cursor()
        if commits.is_committed(cursor, row):
            connection.rollback()
            return CommitResult.ALREADY_COMMITTED
        # A new transaction: the first one may not see what another process commits from now on.
        connection.rollback()
        own = self._context
        is_own = (row.lineage, row.uid, row.attempt) == (own.lineage, own.uid, own.attempt)
        try:
            # At most one process can add it: others wait, or fail.
            commits.add(cursor, row, all_before=is_own)
        except Exception as error:
            connection.rollback()
            if self._driver.is_integrity_error(connection, error) and commits.is_committed(cursor, row):
                return CommitResult.ALREADY_COMMITTED
            raise
        if commits.is_covered(cursor, row):
            connection.rollback()
            return CommitResult.ALREADY_COMMITTED
        insert(connection, self._table, rows_of([stored]), markers)
        if is_own:
            commits.compact(cursor, row)
        connection.commit()
        if is_own and not self._is_pruned:
            self._prune(connection, commits, cursor, row)
        return CommitResult.COMMITTED

    def _prune(self, connection: Any, commits: CommitTable, cursor: Any, row: CommitRow) -> None:
        try:
            self._is_pruned = commits.prune(cursor, row, self._context.parallelism)
            connection.commit()
        except Exception as error:
            connection.rollback()
            if isinstance(error, SnaplineError) or self._driver.is_integrity_error(connection, error):
                return
            _log.warning("%s", self._driver.explained(connection, error, "clearing up the table of commits"))
