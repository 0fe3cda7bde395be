"""PostgreSQL as a source: a table or query in parts, or its new rows for ever."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from snapline.config import Duration, duration_ms
from snapline.config.secret import SecretLike
from snapline.connectors.postgres.copy_rows import query_columns
from snapline.connectors.postgres.postgres_connection import PostgresAddress
from snapline.connectors.postgres.postgres_reader import PostgresReader, Reading, end_of
from snapline.connectors.postgres.postgres_table import PostgresTable, quote
from snapline.contracts.source import ReaderContext, Source, SourceReader, Split
from snapline.errors import ConfigurationError

if TYPE_CHECKING:
    from snapline.connectors.postgres.postgres_connection import Connection

_KEY = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass(%s) AND i.indisprimary AND i.indnkeyatts = 1
"""
_WRITTEN_DIFFERENTLY = frozenset({"interval", "timetz", "citext", "jsonb"})
"""Types with values that are equal and look different, so that their text tells no position."""


class Postgres(Source):
    """Reads a table or a query of PostgreSQL.

    dsn: the address, as `postgresql://user@host:5432/database` or `host=... dbname=...`.
    table: its name, with or without a schema in front; or give `query`.
    query: a SELECT.
    split_by: the column that rows are ordered and divided by; of a table, its primary key if that is one column. An
        index on it is needed for speed.
    splits: into how many parts.
    incremental: read for ever: first all rows, then new ones, in the order of this column, whose values must grow.
    poll: how often to look for new rows.
    lag: how old rows must be, so that no transaction with smaller values is still under way.
    start_after: with `incremental`, skip the rows up to this value.
    password: a `Secret`, or text.
    """

    def __init__(
        self,
        dsn: str,
        table: str | None = None,
        *,
        query: str | None = None,
        split_by: str | None = None,
        splits: int = 8,
        incremental: str | None = None,
        poll: Duration = "5s",
        lag: Duration = 0,
        start_after: Any = None,
        password: SecretLike | None = None,
    ) -> None:
        call = f"Postgres({table!r})" if table is not None else "Postgres(query=...)"
        if (table is None) == (query is None):
            raise ConfigurationError("Postgres(): give either the name of a table, or query='SELECT ...'")
        if not isinstance(splits, int) or isinstance(splits, bool) or splits < 1:
            raise ConfigurationError(f"{call}: splits={splits!r}; use 1 or more")
        if incremental is not None and split_by is not None:
            raise ConfigurationError(f"{call}: incremental={incremental!r} reads in one part; leave out split_by")
        if incremental is None and start_after is not None:
            raise ConfigurationError(f"{call}: start_after={start_after!r} needs incremental=, the column it is about")
        self._call = call
        self._address = PostgresAddress(call, dsn, password)
        self._poll_ms = duration_ms(poll, setting="poll")
        self._lag_ms = duration_ms(lag, setting="lag")
        if incremental is not None and not self._poll_ms:
            raise ConfigurationError(f'{call}: poll={poll!r}; use a pause, for example "1s"')
        self._incremental = incremental
        self._given_order = incremental or split_by
        self._start_after = start_after
        self._splits = splits
        if table is not None:
            self._relation = PostgresTable(call, self._address, table, "none").quoted
        else:
            # A line of its own for what follows: the query may end in a comment.
            self._relation = f"({str(query).strip().rstrip(';')}\n) AS rows"
        self._is_table = table is not None

    @cached_property
    def _reading(self) -> Reading:
        """Asked for once, on the driver, and pickled with the source."""
        with (
            self._address.connect(application="snapline source", autocommit=True) as connection,
            self._address.errors(f"looking at {self._relation}"),
        ):
            columns = tuple(query_columns(connection, self._relation))
            name = self._given_order or self._key(connection)
        order = next((column for column in columns if column.name == name), None)
        names = [column.name for column in columns]
        if order is None:
            raise ConfigurationError(f"{self._call}: there is no column {name!r}; there are {', '.join(names)}")
        if len(set(names)) < len(names):
            raise ConfigurationError(
                f"{self._call}: columns have the same name: {', '.join(names)}; rename them with AS"
            )
        kind = order.field.type
        is_vague = pt.is_floating(kind) or order.kind in _WRITTEN_DIFFERENTLY
        if is_vague or pt.is_nested(kind) or pt.is_binary(kind) or pt.is_boolean(kind):
            raise ConfigurationError(
                f"{self._call}: rows cannot be divided by {name!r}, which is {order.kind}; use numbers without "
                "fractions, times or text"
            )
        poll_s = self._poll_ms / 1000 if self._incremental else None
        return Reading(self._call, self._address, self._relation, columns, order, poll_s, self._lag_ms / 1000)

    def _key(self, connection: Connection) -> str:
        found = connection.execute(_KEY, (self._relation,)).fetchone() if self._is_table else None
        if found is None:
            raise ConfigurationError(
                f"{self._call}: give split_by='column', an indexed column that tells rows apart: there is no primary "
                "key of one column"
            )
        return str(found[0])

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self._reading.columns])

    @property
    def is_bounded(self) -> bool:
        return self._incremental is None

    def splits(self, parallelism: int) -> Sequence[Split]:
        order = self._reading.order.name
        if self._incremental is not None:
            return [{"order": order, "from": None if self._start_after is None else str(self._start_after), "after": 1}]
        with (
            self._address.connect(application="snapline source", autocommit=True) as connection,
            self._address.errors(f"dividing {self._relation}"),
        ):
            first, last = (end_of(self._relation, order, direction) for direction in ("ASC", "DESC"))
            nulls = f"EXISTS (SELECT FROM {self._relation} WHERE {quote(order)} IS NULL)"
            ends = connection.execute(f"SELECT ({first}), ({last}), {nulls}".encode()).fetchone()
            assert ends is not None
            first, last, has_nulls = ends
            cuts = [] if first is None else self._cuts(connection, first, last)
        starts = [*([] if first is None else [first]), *cuts]
        ranges = [{"order": order, "from": start, "below": end} for start, end in pairwise(starts)]
        if starts:
            ranges.append({"order": order, "from": starts[-1], "to": last})
        return [*ranges, *([{"order": order, "nulls": 1}] if has_nulls else [])]

    def _cuts(self, connection: Connection, first: str, last: str) -> list[str]:
        """Values between the first and the last, in order, where splits begin."""
        if self._splits == 1:
            return []
        if pt.is_integer(self._reading.order.field.type):
            low, high = int(first), int(last)
            found = {low + (high - low) * number // self._splits for number in range(1, self._splits)}
            return [str(value) for value in sorted(found) if value > low]
        name = quote(self._reading.order.name)
        places = ", ".join(f"{number / self._splits:.6f}" for number in range(1, self._splits))
        rows = connection.execute(
            f"SELECT cut::text AS value FROM (SELECT DISTINCT unnest(percentile_disc(ARRAY[{places}]::float8[]) WITHIN "
            f"GROUP (ORDER BY {name})) AS cut FROM {self._relation}) AS cuts ORDER BY cut".encode()
        ).fetchall()
        return [row[0] for row in rows if row[0] is not None and row[0] != first]

    def reader(self, context: ReaderContext) -> SourceReader:
        return PostgresReader(self._reading)
