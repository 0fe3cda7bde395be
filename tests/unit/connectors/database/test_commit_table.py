"""What the table of commits remembers, with SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from snapline.connectors.database.commit_table import MAX_TEXT, CommitRow, CommitTable, short


@pytest.fixture
def cursor() -> Iterator[sqlite3.Cursor]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLE.definition)
        yield connection.cursor()


TABLE = CommitTable("commits", lambda count: ["?"] * count)


def row(checkpoint: int, *, subtask: int = 0, attempt: int = 1, part: int = 0, lineage: str = "job.1") -> CommitRow:
    return CommitRow(lineage, "out", subtask, attempt, checkpoint, part)


def rows(cursor: sqlite3.Cursor) -> list[tuple[int, ...]]:
    cursor.execute("SELECT subtask, attempt, checkpoint_id, part, all_before FROM commits ORDER BY 1, 2, 3, 4")
    return cursor.fetchall()


def test_a_row_stands_for_all_older_ones_of_its_writer(cursor: sqlite3.Cursor) -> None:
    for checkpoint in (1, 2, 3):
        TABLE.add(cursor, row(checkpoint), all_before=True)
        TABLE.compact(cursor, row(checkpoint))
    assert rows(cursor) == [(0, 1, 3, 0, 1)]
    assert [TABLE.is_committed(cursor, row(checkpoint)) for checkpoint in (1, 2, 3, 4)] == [True, True, True, False]
    assert not TABLE.is_committed(cursor, row(1, subtask=1))
    assert not TABLE.is_committed(cursor, row(1, attempt=2))
    assert not TABLE.is_committed(cursor, row(1, lineage="job.2"))


def test_what_later_attempts_commit_out_of_order_stands_for_itself(cursor: sqlite3.Cursor) -> None:
    TABLE.add(cursor, row(6), all_before=False)
    assert [TABLE.is_committed(cursor, row(checkpoint)) for checkpoint in (5, 6)] == [False, True]


def test_parts_of_a_checkpoint_are_apart(cursor: sqlite3.Cursor) -> None:
    TABLE.add(cursor, row(1, part=1), all_before=True)
    assert [TABLE.is_committed(cursor, row(1, part=part)) for part in (0, 1, 2)] == [True, True, False]


def test_a_name_is_added_once(cursor: sqlite3.Cursor) -> None:
    TABLE.add(cursor, row(1), all_before=False)
    with pytest.raises(sqlite3.IntegrityError):
        TABLE.add(cursor, row(1), all_before=True)


def test_rows_of_older_attempts_go_once_all_subtasks_are_past_them(cursor: sqlite3.Cursor) -> None:
    TABLE.add(cursor, row(7, subtask=0), all_before=True)
    TABLE.add(cursor, row(5, subtask=1), all_before=True)
    TABLE.add(cursor, row(8, subtask=0, attempt=2), all_before=True)
    assert not TABLE.prune(cursor, row(8, attempt=2), parallelism=2)
    assert TABLE.is_committed(cursor, row(5, subtask=1))
    assert not TABLE.is_committed(cursor, row(6, subtask=1)), "it may be pending in the other subtask"
    TABLE.add(cursor, row(8, subtask=1, attempt=2), all_before=True)
    assert TABLE.prune(cursor, row(8, subtask=1, attempt=2), parallelism=2)
    assert rows(cursor) == [(-1, 2, 0, 0, 1), (0, 2, 8, 0, 1), (1, 2, 8, 0, 1)]
    assert TABLE.is_committed(cursor, row(5, subtask=1))
    assert TABLE.is_committed(cursor, row(6, subtask=1)), "a late commit of a dead process"
    assert not TABLE.is_committed(cursor, row(9, subtask=1, attempt=2))
    assert TABLE.prune(cursor, row(9, attempt=2), parallelism=2)


def test_the_newest_attempt_is_fenced(cursor: sqlite3.Cursor) -> None:
    assert TABLE.newest_attempt(cursor, "job.1", "out") == 0
    for attempt in (1, 3, 3, 2):
        TABLE.fence(cursor, "job.1", "out", attempt)
    assert TABLE.newest_attempt(cursor, "job.1", "out") == 3
    assert TABLE.newest_attempt(cursor, "job.2", "out") == 0
    assert rows(cursor) == [(-2, 3, 0, 0, 0)]


def test_the_newest_checkpoint_of_a_lineage(cursor: sqlite3.Cursor) -> None:
    TABLE.add(cursor, row(3), all_before=True)
    TABLE.add(cursor, row(4, subtask=1), all_before=True)
    TABLE.fence(cursor, "job.1", "out", 9)
    assert TABLE.committed_until(cursor, "job.1", "out") == 4
    assert TABLE.committed_until(cursor, "job.2", "out") is None


def test_long_names_are_cut_and_stay_apart() -> None:
    one, other = "x" * 300 + "1", "x" * 300 + "2"
    assert short("job") == "job"
    assert len(short(one)) == MAX_TEXT
    assert short(one) != short(other)
