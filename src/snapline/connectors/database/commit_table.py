"""The table in the database that remembers what is committed, in the same transaction as the rows.

A row names what a writer prepared: lineage, uid, subtask and attempt of the writer, checkpoint, and part of it. The
writer's own attempt commits in order, so a row with `all_before` stands for all older ones of its writer, which are
deleted. After a restart, what is left of older attempts may be committed in any order, by any subtask: each gets a
row of its own. Once every subtask of an attempt has committed something of its own, nothing of older attempts is left
to commit, and a marker replaces their rows. So the table has a few rows per subtask, whatever the number of
checkpoints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

DEFAULT_NAME = "snapline_commits"
MAX_TEXT = 200
"""The longest lineage or uid that is written as it is; of a longer one, the beginning and a hash."""

MARKER = -1
"""As a subtask: all that older attempts have prepared is committed."""
FENCE = -2
"""As a subtask: the newest attempt that has begun to write."""

_COLUMNS = "lineage, sink_uid, subtask, attempt, checkpoint_id, part, all_before"
_DEFINITION = f"""(
    lineage VARCHAR({MAX_TEXT}) NOT NULL,
    sink_uid VARCHAR({MAX_TEXT}) NOT NULL,
    subtask INTEGER NOT NULL,
    attempt BIGINT NOT NULL,
    checkpoint_id BIGINT NOT NULL,
    part INTEGER NOT NULL,
    all_before SMALLINT NOT NULL,
    PRIMARY KEY (lineage, sink_uid, subtask, attempt, checkpoint_id, part)
)"""
_OF_SINK = "lineage = ? AND sink_uid = ?"
_OF_WRITER = f"{_OF_SINK} AND subtask = ? AND attempt = ?"


class CommitRow(NamedTuple):
    """What a writer prepared, as the table names it; part of the payload of a commit."""

    lineage: str
    uid: str
    subtask: int
    attempt: int
    checkpoint_id: int
    part: int = 0

    @property
    def sink(self) -> tuple[str, str]:
        return short(self.lineage), short(self.uid)

    @property
    def writer(self) -> tuple[Any, ...]:
        return *self.sink, self.subtask, self.attempt

    @property
    def key(self) -> tuple[Any, ...]:
        return *self.writer, self.checkpoint_id, self.part


class CommitTable:
    """Statements of SQL that every database has, with the cursors of its driver.

    `name` is part of the statements as it is. `markers` makes the given number of parameter markers. Nothing here
    begins or ends a transaction.
    """

    def __init__(self, name: str, markers: Callable[[int], Sequence[str]]) -> None:
        self._name = name
        self._markers = markers

    @property
    def definition(self) -> str:
        """What creates the table."""
        return f"CREATE TABLE {self._name} {_DEFINITION}"

    def is_there(self, cursor: Any) -> None:
        """Raises the driver's own error if the table cannot be read."""
        self._run(cursor, f"SELECT COUNT(*) FROM {self._name} WHERE 1 = 0")
        cursor.fetchall()

    def is_committed(self, cursor: Any, row: CommitRow) -> bool:
        """Whether what the row names is committed."""
        exact = f"{_OF_WRITER} AND checkpoint_id = ? AND part = ?"
        self._run(cursor, f"SELECT COUNT(*) FROM {self._name} WHERE {exact}", *row.key)
        return bool(cursor.fetchall()[0][0]) or self.is_covered(cursor, row)

    def is_covered(self, cursor: Any, row: CommitRow) -> bool:
        """Whether a later row says that what this one names is committed."""
        later = "all_before = 1 AND (checkpoint_id > ? OR (checkpoint_id = ? AND part > ?))"
        number = row.checkpoint_id
        self._run(
            cursor,
            f"SELECT COUNT(*) FROM {self._name} WHERE {_OF_SINK} AND "
            f"((subtask = ? AND attempt = ? AND {later}) OR (subtask = {MARKER} AND attempt > ?))",
            *row.writer,
            number,
            number,
            row.part,
            row.attempt,
        )
        return bool(cursor.fetchall()[0][0])

    def add(self, cursor: Any, row: CommitRow, *, all_before: bool) -> None:
        """Add the row; the driver's error about unique keys if another transaction has added it, or is about to."""
        self._add(cursor, *row.key, int(all_before))

    def remove(self, cursor: Any, row: CommitRow) -> None:
        """Take a row back that was added on trial."""
        self._run(cursor, f"DELETE FROM {self._name} WHERE {_OF_WRITER} AND checkpoint_id = ? AND part = ?", *row.key)

    def compact(self, cursor: Any, row: CommitRow) -> None:
        """Let the row, which is there, stand for all older ones of its writer."""
        number = row.checkpoint_id
        self._run(
            cursor,
            f"UPDATE {self._name} SET all_before = 1 WHERE {_OF_WRITER} AND checkpoint_id = ? AND part = ? AND "
            "all_before = 0",
            *row.key,
        )
        self._run(
            cursor,
            f"DELETE FROM {self._name} WHERE {_OF_WRITER} AND (checkpoint_id < ? OR (checkpoint_id = ? AND part < ?))",
            *row.writer,
            number,
            number,
            row.part,
        )

    def prune(self, cursor: Any, row: CommitRow, parallelism: int) -> bool:
        """Replace the rows of attempts before that of `row` by a marker, if all subtasks are past them.

        Returns whether nothing is left to replace. Raises the driver's error about unique keys if another does it too.
        """
        self._run(
            cursor,
            f"SELECT COUNT(*) FROM {self._name} WHERE {_OF_SINK} AND attempt < ? AND subtask <> {FENCE}",
            *row.sink,
            row.attempt,
        )
        if not cursor.fetchall()[0][0]:
            return True
        self._run(
            cursor,
            f"SELECT COUNT(DISTINCT subtask) FROM {self._name} WHERE {_OF_SINK} AND attempt = ? AND all_before = 1 "
            "AND subtask >= 0",
            *row.sink,
            row.attempt,
        )
        if cursor.fetchall()[0][0] < parallelism:
            return False
        self._add(cursor, *row.sink, MARKER, row.attempt, 0, 0, 1)
        self._run(
            cursor,
            f"DELETE FROM {self._name} WHERE {_OF_SINK} AND attempt < ? AND subtask <> {FENCE}",
            *row.sink,
            row.attempt,
        )
        return True

    def fence(self, cursor: Any, lineage: str, uid: str, attempt: int) -> None:
        """From now on this attempt writes, and no older one. A second call changes nothing."""
        if self.newest_attempt(cursor, lineage, uid) >= attempt:
            return
        sink = (short(lineage), short(uid))
        self._add(cursor, *sink, FENCE, attempt, 0, 0, 0)
        self._run(
            cursor, f"DELETE FROM {self._name} WHERE {_OF_SINK} AND subtask = {FENCE} AND attempt < ?", *sink, attempt
        )

    def newest_attempt(self, cursor: Any, lineage: str, uid: str) -> int:
        """The newest attempt that has begun to write; 0 if none has."""
        self._run(
            cursor,
            f"SELECT MAX(attempt) FROM {self._name} WHERE {_OF_SINK} AND subtask = {FENCE}",
            short(lineage),
            short(uid),
        )
        return cursor.fetchall()[0][0] or 0

    def committed_until(self, cursor: Any, lineage: str, uid: str) -> int | None:
        """The newest checkpoint of the lineage that something is committed of."""
        self._run(
            cursor,
            f"SELECT MAX(checkpoint_id) FROM {self._name} WHERE {_OF_SINK} AND subtask >= 0",
            short(lineage),
            short(uid),
        )
        found: int | None = cursor.fetchall()[0][0]
        return found

    def _add(self, cursor: Any, *values: Any) -> None:
        marks = ", ".join("?" * len(values))
        self._run(cursor, f"INSERT INTO {self._name} ({_COLUMNS}) VALUES ({marks})", *values)

    def _run(self, cursor: Any, statement: str, *values: Any) -> None:
        """`?` becomes the markers of the driver. None of our texts has another question mark."""
        parts = statement.split("?")
        marks = [*self._markers(len(values)), ""]
        text = "".join(part + mark for part, mark in zip(parts, marks, strict=True))
        if values:
            cursor.execute(text, values)
        else:
            cursor.execute(text)


def short(text: str) -> str:
    """The text, or the beginning and a hash of one that is too long for the table."""
    if len(text) <= MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:40]
    return f"{text[: MAX_TEXT - 41]}-{digest}"
