"""Rows kept in the checkpoint, and written with their row in the table of commits in one transaction.

Of rows that are only added, the checkpoint keeps the text that COPY takes: a commit sends it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.connectors.database.commit_table import CommitRow
from snapline.connectors.database.stored_rows import StoredRows, rows_of
from snapline.connectors.postgres.postgres_connection import load_psycopg
from snapline.connectors.postgres.postgres_session import PostgresSession
from snapline.connectors.postgres.postgres_table import CopyTarget, PostgresTable, copy_statement, quote
from snapline.connectors.postgres.row_changes import ColumnChoice, KeyedRows
from snapline.connectors.postgres.stored_text import StoredText, texts
from snapline.contracts.sink import CommitResult, Committable, GlobalCommitter, Permit, SinkContext, SinkWriter

if TYPE_CHECKING:
    from snapline.connectors.postgres.postgres_connection import Connection

COMPACT_BYTES = 16 << 20
"""Rows by key are looked through for older values of the same key from this size on."""

_NEW, _GONE = "snapline_new_rows", "snapline_gone_rows"


class StoredWriter(SinkWriter):
    """Keeps rows until their checkpoint, which then holds them; each part of them is one transaction."""

    def __init__(self, table: PostgresTable, choice: ColumnChoice, context: SinkContext) -> None:
        self._choice = choice
        self._table = table
        self._session = PostgresSession(table, context)
        self._target: CopyTarget | None = None
        self._text = StoredText()

    def write(self, batch: pa.RecordBatch) -> None:
        rows = self._choice.rows(batch)
        if self._target is None:
            self._target = self._session.copy_target(rows.schema)
        if rows.num_rows:
            self._text.add(self._target.text(rows))

    @property
    def kept_bytes(self) -> int:
        return self._text.size_bytes

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        names = [] if self._target is None else self._target.names
        return [
            {"row": list(self._session.row(checkpoint_id, part)), "columns": names, "text": text}
            for part, text in enumerate(self._text.take())
        ]

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        row = CommitRow(*committable.payload["row"])
        return _committed(self._session, row, lambda connection: self._copy(connection, committable.payload))

    def _copy(self, connection: Connection, payload: Mapping[str, Any]) -> None:
        if "rows" in payload:  # of an older version
            copied(connection, self._table, self._table.quoted, rows_of([payload["rows"]]))
            return
        statement = copy_statement(self._table.quoted, payload["columns"])
        with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for text in texts(payload["text"]):
                copy.write(text)

    def abort_newer(self, checkpoint_id: int) -> None:
        self._session.take_over(checkpoint_id)

    def close(self) -> None:
        self._session.close()


class KeyedWriter(SinkWriter):
    """Keeps rows by key for the `UpsertCommitter`: of many, only the last of each key."""

    def __init__(self, choice: ColumnChoice, keyed: KeyedRows, context: SinkContext) -> None:
        self._choice = choice
        self._keyed = keyed
        self._context = context
        self._rows = StoredRows()
        self._compact_above_bytes = COMPACT_BYTES

    def write(self, batch: pa.RecordBatch) -> None:
        batch = self._choice.rows(batch)
        self._keyed.check_rows(batch)
        self._rows.add(batch)
        if self._rows.size_bytes > self._compact_above_bytes:
            self._rows.replace(self._keyed.newest(self._rows.table()))
            self._compact_above_bytes = max(2 * self._rows.size_bytes, COMPACT_BYTES)

    @property
    def kept_bytes(self) -> int:
        return self._rows.size_bytes

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        place = [self._context.lineage, self._context.uid, self._context.attempt]
        return [{"place": place, "rows": rows} for rows in self._rows.take()]


class UpsertCommitter(GlobalCommitter):
    """Writes the last row of each key of a checkpoint, of all subtasks, in one transaction.

    One committer for all subtasks, so that checkpoints go in order even if keys move between subtasks: an older value
    never replaces a newer one.
    """

    def __init__(self, table: PostgresTable, keyed: KeyedRows, context: SinkContext) -> None:
        self._table = table
        self._keyed = keyed
        self._session = PostgresSession(table, context, "committer")

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        payload = committable.payload
        lineage, uid, attempt = payload[0]["place"]
        row = CommitRow(lineage, uid, 0, attempt, committable.checkpoint_id)
        return _committed(self._session, row, lambda connection: self._upsert(connection, payload))

    def _upsert(self, connection: Connection, payload: Sequence[Any]) -> None:
        rows, gone = self._keyed.last(pa.Table.from_batches(rows_of([part["rows"] for part in payload])))
        key = ", ".join(map(quote, self._keyed.key))
        if gone.num_rows:
            self._stage(connection, _GONE, gone)
            same = " AND ".join(f"t.{quote(name)} = g.{quote(name)}" for name in self._keyed.key)
            connection.execute(f"DELETE FROM {self._table.quoted} t USING {_GONE} g WHERE {same}".encode())
        if rows.num_rows:
            self._stage(connection, _NEW, rows)
            names = ", ".join(map(quote, rows.column_names))
            others = [quote(name) for name in rows.column_names if name not in self._keyed.key]
            update = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
            action = f"DO UPDATE SET {update}" if others else "DO NOTHING"
            connection.execute(
                f"INSERT INTO {self._table.quoted} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {_NEW} "
                f"ON CONFLICT ({key}) {action}".encode()
            )

    def _stage(self, connection: Connection, name: str, rows: pa.Table) -> None:
        columns = ", ".join(map(quote, rows.column_names))
        connection.execute(
            f"CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS SELECT {columns} FROM {self._table.quoted} "
            "WITH NO DATA".encode()
        )
        copied(connection, self._table, name, rows.to_batches())

    def abort_newer(self, checkpoint_id: int) -> None:
        self._session.take_over(checkpoint_id)

    def close(self) -> None:
        self._session.close()


def copied(connection: Connection, table: PostgresTable, into: str, batches: Sequence[pa.RecordBatch]) -> None:
    """COPY rows into `table`, or into a temporary one with the same columns."""
    target = CopyTarget(into, batches[0].schema, table.columns(connection))
    with connection.cursor() as cursor, cursor.copy(target.statement.encode()) as copy:
        for batch in batches:
            target.write(copy, batch)


def _committed(session: PostgresSession, row: CommitRow, write: Any) -> CommitResult:
    """One transaction: the row in the table of commits, which at most one process can add, and what `write` does."""
    commits = session.table.commits
    psycopg = load_psycopg()

    def once(connection: Connection) -> CommitResult:
        with connection.cursor() as cursor:
            if commits.is_committed(cursor, row):
                return CommitResult.ALREADY_COMMITTED
        try:
            with connection.transaction(), connection.cursor() as cursor:
                is_own = session.is_own(row)
                # Waits while another process is committing the same.
                commits.add(cursor, row, all_before=is_own)
                if commits.is_covered(cursor, row):
                    raise psycopg.Rollback
                write(connection)
                if is_own:
                    commits.compact(cursor, row)
        except psycopg.errors.UniqueViolation as error:
            if error.diag.table_name == session.table.commits_quoted.rpartition(".")[2].strip('"'):
                return CommitResult.ALREADY_COMMITTED
            raise
        return CommitResult.COMMITTED

    result = session.in_commit(once)
    if result is not CommitResult.RETRY_LATER:
        session.in_commit(lambda connection: session.prune(connection, row))
    return result
