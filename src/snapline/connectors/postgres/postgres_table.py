"""A table of PostgreSQL that rows are written to: its columns, and the table of commits beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

import pyarrow as pa

from snapline.connectors.database.commit_table import CommitTable
from snapline.connectors.postgres.copy_text import copy_text
from snapline.connectors.postgres.postgres_connection import PostgresAddress, load_psycopg
from snapline.connectors.postgres.postgres_types import PostgresColumn, check_columns, sql_type
from snapline.errors import ConfigurationError

if TYPE_CHECKING:
    from snapline.connectors.postgres.postgres_connection import Connection

_COLUMNS = """
SELECT a.attname, coalesce(b.typname, t.typname), format_type(a.atttypid, a.atttypmod),
       coalesce(b.typcategory, t.typcategory)::text,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '', a.attgenerated <> ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = nullif(t.typbasetype, 0)
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_THERE = "SELECT to_regclass(%s) IS NOT NULL"
_UNIQUE = """
SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indimmediate
    AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
    AND (SELECT array_agg(a.attname::text ORDER BY a.attname::text) FROM pg_attribute a
        WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])) = %s::text[])
"""
_VIEW = """
SELECT EXISTS (SELECT FROM pg_class c WHERE c.oid = to_regclass(%s) AND c.relkind IN ('v', 'm')
    AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgtype & 68 = 68))
"""
"""Whether it is a view without a trigger INSTEAD OF INSERT: those take no COPY."""
_LACKING = """
SELECT p FROM unnest(%s::text[]) AS p WHERE NOT CASE p WHEN 'DELETE' THEN has_table_privilege(to_regclass(%s), p)
    ELSE has_any_column_privilege(to_regclass(%s), p) END
"""
_LOCK = 7_262_148_911
"""Of those who create tables: `IF NOT EXISTS` alone fails where two do it at once."""


class PostgresTable:
    """The table `name`, which may have a schema in front. Can be pickled."""

    def __init__(self, call: str, address: PostgresAddress, name: str, commit_table: str) -> None:
        self.call = call
        self.address = address
        self.name = name
        self.quoted = _quoted(call, name)
        self.commits_quoted = _quoted(call, commit_table)

    @property
    def commits(self) -> CommitTable:
        return CommitTable(self.commits_quoted, lambda count: ["%s"] * count)

    def make(self, connection: Connection, schema: pa.Schema, key: Sequence[str]) -> None:
        """Create the table for rows of this schema, unless it is there."""
        parts = [f"{quote(field.name)} {sql_type(field.type)}" for field in schema]
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quote, key))})")
        self._create(connection, self.quoted, f"CREATE TABLE {self.quoted} ({', '.join(parts)})")

    def make_commits(self, connection: Connection) -> None:
        """Create the table of commits, unless it is there."""
        self._create(connection, self.commits_quoted, self.commits.definition)

    def _create(self, connection: Connection, quoted: str, definition: str) -> None:
        with self.address.errors(f"CREATE TABLE {quoted}"), connection.transaction():
            if self._is(connection, _THERE, quoted):
                return
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if not self._is(connection, _THERE, quoted):
                connection.execute(definition.encode())

    def _is(self, connection: Connection, question: LiteralString, *values: Any) -> bool:
        row = connection.execute(question, values).fetchone()
        return bool(row and row[0])

    def columns(self, connection: Connection) -> list[PostgresColumn]:
        """All columns; `ConfigurationError` if there is no such table."""
        with self.address.errors(f"looking at the table {self.name}"):
            found = connection.execute(_COLUMNS, (self.quoted,)).fetchall()
        if not found:
            raise ConfigurationError(
                f"{self.call}: there is no table {self.name} at {self.address!r}: create it, or set create_table=True"
            )
        return [PostgresColumn(*row) for row in found]

    def check(
        self, connection: Connection, schema: pa.Schema, key: Sequence[str], rights: Sequence[str] = ("INSERT",)
    ) -> None:
        """Raises `ConfigurationError` unless rows of this schema fit the table, `key` is unique in it, and this user
        has the rights.
        """
        check_columns(self.call, self.name, schema, self.columns(connection))
        with self.address.errors(f"looking at the table {self.name}"):
            if self._is(connection, _VIEW, self.quoted):
                raise ConfigurationError(f"{self.call}: {self.name} is a view; name the table behind it")
            if key and not self._is(connection, _UNIQUE, self.quoted, sorted(key)):
                raise ConfigurationError(
                    f"{self.call}: the table {self.name} has no unique index on its key, or only one that is partial "
                    f"or deferrable: ALTER TABLE {self.name} ADD PRIMARY KEY ({', '.join(key)})"
                )
            lacking = connection.execute(_LACKING, (list(rights), self.quoted, self.quoted)).fetchall()
        if lacking:
            raise ConfigurationError(
                f"{self.call}: {self.address!r} may not write to the table {self.name}: GRANT "
                f"{', '.join(right for (right,) in lacking)} ON {self.name} to this user"
            )

    @contextmanager
    def unique_names(self) -> Iterator[None]:
        """Inside, another transaction may have added the same row of commits, which is as good."""
        try:
            yield
        except load_psycopg().errors.UniqueViolation:
            pass


class CopyTarget:
    """COPY into a table or a temporary one, with the columns of a schema."""

    def __init__(self, quoted: str, schema: pa.Schema, columns: Sequence[PostgresColumn]) -> None:
        by_name = {column.name: column for column in columns}
        self._columns = [by_name[name] for name in schema.names]
        self.names = list(schema.names)
        self.statement = copy_statement(quoted, self.names)

    def text(self, batch: pa.RecordBatch) -> pa.Buffer:
        """The rows as COPY takes them."""
        return copy_text(batch, self._columns)

    def write(self, copy: Any, batch: pa.RecordBatch) -> None:
        """Write rows to a COPY that is under way."""
        if batch.num_rows:
            copy.write(memoryview(self.text(batch)))


def copy_statement(quoted: str, names: Sequence[str]) -> str:
    """What begins a COPY of these columns into a table."""
    return f"COPY {quoted} ({', '.join(map(quote, names))}) FROM STDIN"


def quote(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def digest(*parts: str) -> str:
    """A short name that no two lists of texts share."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _quoted(call: str, name: str) -> str:
    parts = name.split(".") if isinstance(name, str) else []
    if not 1 <= len(parts) <= 2 or not all(parts) or "\0" in name:
        raise ConfigurationError(f"{call}: {name!r} is not the name of a table; give 'table' or 'schema.table'")
    return ".".join(map(quote, parts))
