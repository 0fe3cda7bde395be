"""Rows copied into an open transaction, which PREPARE TRANSACTION makes durable and COMMIT PREPARED visible."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.connectors.database.commit_table import CommitRow
from snapline.connectors.postgres.postgres_connection import load_psycopg
from snapline.connectors.postgres.postgres_session import PostgresSession, is_gid
from snapline.connectors.postgres.postgres_table import CopyTarget, PostgresTable
from snapline.connectors.postgres.row_changes import ColumnChoice
from snapline.contracts.sink import CommitResult, Committable, Permit, SinkContext, SinkWriter
from snapline.errors import ConfigurationError, RestoreError

if TYPE_CHECKING:
    from snapline.connectors.postgres.postgres_connection import Connection


class CopyWriter(SinkWriter):
    """Copies rows into a transaction, and commits it ahead of each barrier: at least once."""

    def __init__(self, table: PostgresTable, choice: ColumnChoice, context: SinkContext) -> None:
        self._choice = choice
        self._session = PostgresSession(table, context)
        self._table = table
        self._address = table.address
        self._connection: Connection | None = None
        self._target: CopyTarget | None = None
        self._copy: Any = None
        self._open_copy = ExitStack()

    def write(self, batch: pa.RecordBatch) -> None:
        rows = self._choice.rows(batch)
        with self._address.errors(f"COPY to {self._table.name}"):
            if self._copy is None:
                self._begin(rows.schema)
            assert self._target is not None
            self._target.write(self._copy, rows)

    def _begin(self, schema: pa.Schema) -> None:
        if self._connection is None:
            self._connection = self._opened()
        if self._target is None:
            self._target = CopyTarget(self._table.quoted, schema, self._table.columns(self._connection))
        self._connection.execute("BEGIN")
        cursor = self._open_copy.enter_context(self._connection.cursor())
        self._copy = self._open_copy.enter_context(cursor.copy(self._target.statement.encode()))

    def _opened(self) -> Connection:
        return self._session.open()

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        if self._copy is None:
            return ()
        assert self._connection is not None
        with self._address.errors(f"COPY to {self._table.name}"):
            self._copy = None
            self._open_copy.close()
            return self._end(self._connection, checkpoint_id)

    def _end(self, connection: Connection, checkpoint_id: int) -> Sequence[Any]:
        connection.execute("COMMIT")
        return ()

    def abort_newer(self, checkpoint_id: int) -> None:
        self._session.take_over(checkpoint_id)

    def close(self) -> None:
        self._session.close()
        if self._connection is not None:
            # Ahead of the end of COPY, which else would wait for an answer, and could commit.
            self._connection.close()
            self._connection = None
            with suppress(load_psycopg().Error):  # COPY complains that its connection is closed
                self._open_copy.close()
        self._copy = None


class PreparedWriter(CopyWriter):
    """Prepares the transaction instead, with a row in the table of commits, and commits it when it may."""

    _parts = 0

    def _opened(self) -> Connection:
        connection = super()._opened()
        row = connection.execute("SELECT current_setting('max_prepared_transactions')::int").fetchone()
        if row is not None and row[0] < self._session.context.parallelism:
            connection.close()
            raise ConfigurationError(
                f"{self._table.call}: max_prepared_transactions is {row[0]} at {self._address!r}, and "
                f"{self._session.context.parallelism} subtasks write: set it to twice as many or more and restart the "
                'server, or use mode="commit_table"'
            )
        return connection

    def _end(self, connection: Connection, checkpoint_id: int) -> Sequence[Any]:
        self._parts += 1
        gid, row = self._session.gid(checkpoint_id, self._parts), self._session.row(checkpoint_id, self._parts)
        with connection.cursor() as cursor:
            self._table.commits.add(cursor, row, all_before=False)
        psycopg = load_psycopg()
        connection.execute(psycopg.sql.SQL("PREPARE TRANSACTION {}").format(psycopg.sql.Literal(gid)))
        return ({"gid": gid, "row": list(row)},)

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        gid, row = committable.payload["gid"], CommitRow(*committable.payload["row"])
        if not is_gid(gid):
            raise RestoreError(f"{committable.name} does not name a transaction of this sink, but {gid!r}")
        return self._session.in_commit(lambda connection: self._committed(connection, gid, row))

    def _committed(self, connection: Connection, gid: str, row: CommitRow) -> CommitResult:
        psycopg = load_psycopg()
        result = CommitResult.COMMITTED
        try:
            connection.execute(psycopg.sql.SQL("COMMIT PREPARED {}").format(psycopg.sql.Literal(gid)))
        except psycopg.errors.UndefinedObject:
            with connection.cursor() as cursor:
                if not self._table.commits.is_committed(cursor, row):
                    raise self._lost(gid) from None
            result = CommitResult.ALREADY_COMMITTED
        except psycopg.errors.ObjectNotInPrerequisiteState:  # another process is committing it right now
            return CommitResult.RETRY_LATER
        self._session.settle(connection, row)
        return result

    def _lost(self, gid: str) -> RestoreError:
        return RestoreError(
            f"{self._table.call}: the prepared transaction {gid} cannot be committed: {self._address!r} has it no "
            "more, and the table of commits does not have it either. Somebody rolled it back, or this is another "
            "database: its rows are lost here. Connect to the right database, or restore an older snapshot without it"
        )
