"""Reads splits of a PostgreSQL table or query in the order of one column, so that any position can be resumed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from snapline.connectors.postgres.copy_rows import CopiedRows, QueryColumn
from snapline.connectors.postgres.copy_text import column_text
from snapline.connectors.postgres.postgres_connection import PostgresAddress
from snapline.connectors.postgres.postgres_table import quote
from snapline.connectors.postgres.postgres_types import PostgresColumn
from snapline.contracts.source import Position, SourceReader, Split, Wait
from snapline.errors import RestoreError

if TYPE_CHECKING:
    from snapline.connectors.postgres.postgres_connection import Connection

BATCH_ROWS = 20_000

_TIMES = ("timestamp", "timestamptz", "date")


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read: `relation` is a table or a query in parentheses; `order` is the column that rows are ordered by.

    With `poll_s` there is no end: new rows are looked for that often, and are read once they are `lag_s` old.
    """

    call: str
    address: PostgresAddress
    relation: str
    columns: tuple[QueryColumn, ...]
    order: QueryColumn
    poll_s: float | None = None
    lag_s: float = 0.0

    @property
    def select(self) -> str:
        return f"SELECT {', '.join(column.selected for column in self.columns)} FROM {self.relation}"

    def query(self, split: Split, position: Position, bound: str | None) -> str:
        """The rows of a split behind a position. Rows with the same value stay together."""
        name = quote(self.order.name)
        if split.get("nulls"):
            return f"{self.select} WHERE {name} IS NULL"
        limits = [f"{name} > {literal(position)}" if position is not None else None]
        if position is None and split.get("from") is not None:
            limits.append(f"{name} {'>' if split.get('after') else '>='} {literal(split['from'])}")
        if split.get("below") is not None:
            limits.append(f"{name} < {literal(split['below'])}")
        if split.get("to") is not None:
            limits.append(f"{name} <= {literal(split['to'])}")
        if bound is not None:
            limits.append(f"{name} <= {bound}")
        where = " AND ".join(limit for limit in limits if limit) or f"{name} IS NOT NULL"
        return f"{self.select} WHERE {where} ORDER BY {name}"


class PostgresReader(SourceReader):
    """One COPY at a time, of the first of its splits."""

    def __init__(self, reading: Reading, clock: Callable[[], float] = time.monotonic) -> None:
        self._reading = reading
        self._clock = clock
        self._waiting: deque[tuple[Split, Position]] = deque()
        self._connection: Connection | None = None
        self._rows: CopiedRows | None = None
        self._held: pa.RecordBatch | None = None
        self._next_poll_s = 0.0
        self._seen: deque[tuple[float, str]] = deque()
        self._order_index = [column.name for column in reading.columns].index(reading.order.name)

    def add_split(self, split: Split, position: Position) -> None:
        is_ours = isinstance(split, dict) and split.get("order") == self._reading.order.name
        if not is_ours or not isinstance(position, str | None):
            raise RestoreError(
                f"{split!r} is not a split of {self._reading.call}; was the snapshot taken with another column?"
            )
        self._waiting.append((split, position))

    def read(self) -> pa.RecordBatch | Wait | None:
        if not self._waiting:
            return None
        reading = self._reading
        with reading.address.errors(f"reading {reading.relation}"):
            if self._rows is None and (pause := self._begin()) is not None:
                return pause
            assert self._rows is not None
            batch = self._rows.read(BATCH_ROWS)
        return self._ended() if batch is None else self._groups(batch)

    def _begin(self) -> Wait | None:
        """Start the COPY of the first split; or how long to wait until there is something to look for."""
        reading = self._reading
        split, position = self._waiting[0]
        if reading.poll_s is not None and (left_s := self._next_poll_s - self._clock()) > 0:
            return Wait(left_s)
        if self._connection is None:
            self._connection = reading.address.connect_to_copy(application="snapline source")
        bound = None
        if reading.poll_s is not None:
            self._next_poll_s = self._clock() + reading.poll_s
            bound = self._bound(self._connection)
            if bound is None:
                return Wait(reading.poll_s)
        self._rows = CopiedRows(self._connection, reading.query(split, position, bound), reading.columns, reading.call)
        return None

    def _bound(self, connection: Connection) -> str | None:
        """Up to where rows are old enough to be read; None if there are none."""
        reading = self._reading
        if reading.order.kind in _TIMES:
            # Of the server's clock, and of the session's zone, UTC.
            return f"now() - interval '{reading.lag_s:.3f} seconds'" if reading.lag_s else "'infinity'"
        row = connection.execute(end_of(reading.relation, reading.order.name, "DESC").encode()).fetchone()
        now_s = self._clock()
        if row is not None and row[0] is not None:
            self._seen.append((now_s, row[0]))
        bound: str | None = None
        while self._seen and self._seen[0][0] <= now_s - reading.lag_s:
            bound = self._seen.popleft()[1]
        return None if bound is None else literal(bound)

    def _groups(self, batch: pa.RecordBatch) -> pa.RecordBatch | Wait:
        """All rows but those with the last value, of which there may be more."""
        if self._held is not None:
            batch = pa.concat_batches([self._held, batch])
        order = batch.column(self._order_index)
        alike = self._written_alike(order)
        last = alike[-1]
        same = batch.num_rows if not last.is_valid else max(1, pc.sum(pc.equal(alike, last)).as_py() or 0)
        whole = batch.num_rows - same
        self._held = batch.slice(whole)
        if not whole:
            return Wait(0)
        self._move(order.slice(whole - 1, 1))
        return batch.slice(0, whole)

    def _written_alike(self, values: pa.Array) -> pa.Array:
        """Equal values as equal ones: a numeric without limits keeps the zeros at its end."""
        if self._reading.order.kind != "numeric" or not pt.is_string(values.type):
            return values
        return pc.replace_substring_regex(values, r"\.0*$|(\.\d*[1-9])0+$", r"\1")

    def _ended(self) -> pa.RecordBatch | Wait | None:
        held, self._held, self._rows = self._held, None, None
        if self._reading.poll_s is None:
            self._waiting.popleft()
        if held is None:
            if self._reading.poll_s is None:
                return Wait(0) if self._waiting else None
            return Wait(max(0.0, self._next_poll_s - self._clock()))
        if self._reading.poll_s is not None:
            self._move(held.column(self._order_index).slice(held.num_rows - 1, 1))
        return held

    def _move(self, value: pa.Array) -> None:
        split, _ = self._waiting[0]
        order = self._reading.order
        text: str = column_text(value, PostgresColumn(order.name, order.kind, order.kind))[0].as_py()
        self._waiting[0] = (split, text)

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return list(self._waiting)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def end_of(relation: str, order: str, direction: str) -> str:
    """The query for the first or the last value, as text. Not min and max: some types have an order and lack those."""
    name = quote(order)
    return f"SELECT {name}::text AS value FROM {relation} WHERE {name} IS NOT NULL ORDER BY {name} {direction} LIMIT 1"


def literal(value: Any) -> str:
    """A value as text that the server makes what the column needs of."""
    doubled = str(value).replace("'", "''")
    escaped = doubled.replace("\\", "\\\\")
    return f" E'{escaped}'" if escaped != doubled else f"'{doubled}'"
