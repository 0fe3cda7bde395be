"""The contract of sinks notices every way to break it; sinks that keep it are in tests/contract."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.testing import SinkContract


class Directory(sl.Sink):
    """One file for each row that is final, named by its number and by what has written it."""

    def __init__(self, directory: Path, fault: str) -> None:
        self._directory = directory
        self._fault = fault

    def check_access(self) -> None:
        if self._fault == "leaves a probe":
            (self._directory / "probe").write_text("7")

    def writer(self, context: sl.SinkContext) -> sl.SinkWriter:
        return DirectoryWriter(self._directory, self._fault, context)


class DirectoryWriter(sl.SinkWriter):
    def __init__(self, directory: Path, fault: str, context: sl.SinkContext) -> None:
        self._directory = directory
        self._fault = fault
        self._context = context
        self._rows: list[int] = []
        self._commits = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.column("x").to_pylist()
        if self._fault == "shows at once":
            self._show(self._rows, "written")

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        rows, self._rows = self._rows, []
        if self._fault == "shows early":
            self._show(rows, "prepared")
        return [rows] if rows or self._fault == "prepares nothing" else []

    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult | sl.RetryWith:
        self._commits += 1
        fault = self._fault
        if fault == "replaces for ever" or (fault == "replaces once" and isinstance(committable.payload, list)):
            return sl.RetryWith({"rows": committable.payload})
        if fault == "refuses":
            return sl.CommitResult.RETRY_LATER
        id = committable.name
        if fault == "commits twice":
            id += f" {self._commits}"
        if fault == "knows commits only by attempt":
            id += f" {self._context.attempt}"
        payload = committable.payload
        self._show(payload["rows"] if isinstance(payload, dict) else payload, id)
        return sl.CommitResult.COMMITTED

    def abort_newer(self, checkpoint_id: int) -> None:
        if self._fault == "aborts too much":
            for path in self._directory.iterdir():
                path.unlink()

    def close(self) -> None:
        if self._fault == "shows at its end":
            self._show(self._rows, "closed")

    def _show(self, rows: list[int], by: str) -> None:
        (self._directory / by.replace("/", "_")).write_text(" ".join(map(str, rows)))


class Contract(SinkContract):
    def __init__(self, fault: str) -> None:
        self.fault = fault

    def make_sink(self, directory: Path) -> sl.Sink:
        return Directory(directory, self.fault)

    def visible_numbers(self, directory: Path) -> list[int]:
        return [int(number) for path in directory.iterdir() for number in path.read_text().split()]


def suite_of(contract: SinkContract) -> dict[str, Any]:
    return {name: getattr(contract, name) for name in dir(contract) if name.startswith("test_")}


@pytest.mark.parametrize("habit", ["none", "replaces once"])
def test_a_right_sink_passes(habit: str, tmp_path: Path) -> None:
    tests = suite_of(Contract(habit))
    assert len(tests) == 12
    for number, test in enumerate(tests.values()):
        directory = tmp_path / str(number)
        directory.mkdir()
        test(directory)


@pytest.mark.parametrize(
    ("fault", "test", "complaint"),
    [
        ("leaves a probe", "rows_are_visible_after_their_commit", r"after check_access\(\): .* and the rows \[7\] are"),
        ("shows at once", "rows_are_visible_after_their_commit", r"after write\(\): the rows \[\] must be visible"),
        ("shows early", "rows_are_visible_after_their_commit", r"after prepare\(\): .* and the rows \[1, 2, 3\] are"),
        ("refuses", "rows_are_visible_after_their_commit", r"commit\(\) of \[1, 2, 3\] gave CommitResult.RETRY_LATER"),
        ("replaces for ever", "rows_are_visible_after_their_commit", "asked for another payload 10 times"),
        ("prepares nothing", "without_rows_there_is_nothing_to_commit", "must return nothing"),
        ("commits twice", "a_second_commit_changes_nothing", r"the rows \[1\] must be visible, and the rows \[1, 1\]"),
        ("knows commits only by attempt", "a_second_commit_changes_nothing", r"and the rows \[1, 1\] are"),
        ("aborts too much", "a_second_commit_changes_nothing", "must leave what is committed"),
        ("shows early", "a_restored_writer_commits_what_was_prepared_and_drops_the_rest", "after a restore"),
        ("shows at its end", "rows_that_are_not_prepared_end_with_their_writer", r"after close\(\).*and 1001 rows are"),
    ],
)
def test_a_wrong_sink_fails(fault: str, test: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=complaint):
        suite_of(Contract(fault))[f"test_{test}"](tmp_path)
