"""PostgreSQL as an exactly-once sink: prepared transactions, or a table of commits in the same transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pyarrow as pa

from snapline.config.secret import SecretLike
from snapline.connectors.database.commit_table import DEFAULT_NAME
from snapline.connectors.postgres.postgres_connection import PostgresAddress
from snapline.connectors.postgres.postgres_table import PostgresTable
from snapline.connectors.postgres.postgres_types import check_types
from snapline.connectors.postgres.prepared_writer import CopyWriter, PreparedWriter
from snapline.connectors.postgres.row_changes import ColumnChoice, KeyedRows
from snapline.connectors.postgres.stored_writer import KeyedWriter, StoredWriter, UpsertCommitter
from snapline.contracts.sink import CommitScope, GlobalCommitter, Sink, SinkContext, SinkWriter
from snapline.errors import ConfigurationError, TransientError

_log = logging.getLogger(__name__)

MODES = ("prepared", "commit_table", "upsert")
GUARANTEES = ("exactly_once", "at_least_once")


class Postgres(Sink):
    """Writes rows to a table of PostgreSQL, exactly once.

    dsn: the address, as `postgresql://user@host:5432/database` or `host=... dbname=...`.
    table: its name, with or without a schema in front.
    mode: "prepared" copies rows into transactions that PREPARE TRANSACTION makes durable; "commit_table" keeps rows in
        the checkpoint and writes them in one transaction with a row in `commit_table`; "upsert" does the same and
        replaces rows with the same `key`.
    key: columns with a unique index, for "upsert". The last row of a key wins.
    delete_column: for "upsert", a column of true and false; a row with true deletes the row of its key.
    password: a `Secret`, or text.
    columns: the columns to write, all by default; a mapping gives them other names in the table.
    create_table: create the table if it is not there.
    guarantee: "at_least_once" commits ahead of each barrier: less latency, and rows twice after a failure.
    commit_table: the table that remembers what is committed; created if it is not there.
    """

    def __init__(
        self,
        dsn: str,
        table: str,
        *,
        mode: str = "prepared",
        key: Sequence[str] = (),
        delete_column: str | None = None,
        password: SecretLike | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        create_table: bool = False,
        guarantee: str = "exactly_once",
        commit_table: str = DEFAULT_NAME,
    ) -> None:
        call = f"Postgres({table!r})"
        key = [key] if isinstance(key, str) else list(key)
        _one_of(call, "mode", mode, MODES)
        _one_of(call, "guarantee", guarantee, GUARANTEES)
        if (mode == "upsert") != bool(key):
            advice = 'name the columns that tell rows apart, key=["id"]' if mode == "upsert" else 'set mode="upsert"'
            raise ConfigurationError(f"{call}: mode={mode!r} with key={key!r}: {advice}")
        if mode != "upsert" and delete_column is not None:
            raise ConfigurationError(f'{call}: delete_column={delete_column!r} needs mode="upsert" and a key')
        if mode == "upsert" and guarantee != "exactly_once":
            raise ConfigurationError(f'{call}: mode="upsert" is exactly once; leave out guarantee={guarantee!r}')
        if "?" in commit_table or "%" in commit_table:
            raise ConfigurationError(f"{call}: commit_table={commit_table!r}: use a name without ? and %")
        self._call = call
        self._mode = mode
        self._guarantee = guarantee
        self._create_table = create_table
        self._table = PostgresTable(call, PostgresAddress(call, dsn, password), table, commit_table)
        self._choice = ColumnChoice(call, columns)
        self._keyed = KeyedRows(call, key, delete_column)
        self._schemas: list[pa.Schema] = []
        self._is_checked = False
        self.two_phase = guarantee == "exactly_once"
        self.commit_scope = CommitScope.JOB if mode == "upsert" else CommitScope.SUBTASK

    def check(self, schema: pa.Schema) -> None:
        chosen = self._choice.schema(schema)
        if self._mode == "upsert":
            self._keyed.check(chosen)
            chosen = self._keyed.written(chosen)
        check_types(self._call, chosen)
        if chosen not in self._schemas:
            self._schemas.append(chosen)

    def check_access(self) -> None:
        """Connects, creates what is missing and may be created, and compares the table with the rows.

        A server that is away is an error on the driver only. A process that starts later, perhaps after a failure,
        leaves it to its writers, which fail over until the server is back.
        """
        try:
            self._check_access()
        except TransientError as error:
            if not self._is_checked:
                raise
            _log.warning("%s; the job goes on when it answers", error)
        self._is_checked = True

    def _check_access(self) -> None:
        address, table = self._table.address, self._table
        connection = address.connect(application="snapline check", autocommit=True, is_running=self._is_checked)
        with connection:
            for schema in self._schemas:
                if self._create_table:
                    table.make(connection, schema, self._keyed.key)
                table.check(connection, schema, self._keyed.key, self._rights)
            table.make_commits(connection)
            with address.errors(f"using the table {table.commits_quoted}"), connection.cursor() as cursor:
                table.commits.is_there(cursor)
                if self._mode == "prepared" and self.two_phase:
                    cursor.execute("SELECT current_setting('max_prepared_transactions')::int")
                    if cursor.fetchall()[0][0] == 0:
                        raise ConfigurationError(
                            f"{self._call}: prepared transactions are off at {address!r}: set "
                            "max_prepared_transactions in postgresql.conf to twice the number of subtasks or more and "
                            'restart the server, or use mode="commit_table"'
                        )

    @property
    def _rights(self) -> list[str]:
        """What this user has to be allowed to do with the table."""
        if self._mode != "upsert":
            return ["INSERT"]
        return ["INSERT", "SELECT", "UPDATE", *(["DELETE"] if self._keyed.delete_column else [])]

    def committed_until(self, lineage: str, uid: str) -> int | None:
        address, table = self._table.address, self._table
        with address.connect(application="snapline check", autocommit=True) as connection:
            table.make_commits(connection)
            with address.errors("reading the table of commits"), connection.cursor() as cursor:
                return table.commits.committed_until(cursor, lineage, uid)

    def writer(self, context: SinkContext) -> SinkWriter:
        if self._mode == "upsert":
            return KeyedWriter(self._choice, self._keyed, context)
        if self._guarantee == "at_least_once":
            return CopyWriter(self._table, self._choice, context)
        kind = PreparedWriter if self._mode == "prepared" else StoredWriter
        return kind(self._table, self._choice, context)

    def global_committer(self, context: SinkContext) -> GlobalCommitter:
        return UpsertCommitter(self._table, self._keyed, context)


def _one_of(call: str, setting: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{call}: {setting}={value!r}; use one of {', '.join(map(repr, allowed))}")
