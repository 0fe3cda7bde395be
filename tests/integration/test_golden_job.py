"""Snapshots made by an older version are restored for ever. If this fails, the code is wrong, not the files.

Each directory of `tests/golden/job-v1` is what an interrupted run of `tests/golden/golden_job.py` left behind. Restored
from there, the job must write exactly what an uninterrupted run writes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.golden.golden_job import CORE, MORE, Secret, make_job, run_to_the_end
from tests.golden.golden_results import facts, finished_tasks, results

import snapline as sl
from snapline.testing.clusters import ThreadCluster

GOLDEN = Path(__file__).parents[1] / "golden" / "job-v1"
EXPECTED: dict[str, list[Any]] = json.loads((GOLDEN / "expected.json").read_text())
PARTS: dict[str, Collection[str] | None] = {
    "aligned": None,
    "unaligned": CORE,
    "savepoint": MORE,
    "native": MORE,
    "finished": CORE,
    "stopped": CORE,
    "suspended": CORE,
}
ROCKSDB = {"state_backend": "rocksdb"}
SMALL = {"channel_memory": "1KB", "batch_size": "1KB"}


@dataclass(frozen=True)
class Case:
    """A way to restore one of the snapshots."""

    run: str
    parallelism: int = 2
    execution: dict[str, Any] = field(default_factory=dict)
    checkpoints: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        settings = [*self.execution.values(), *self.checkpoints]
        return "-".join([self.run, str(self.parallelism), *map(str, settings)])


CASES = [
    Case("aligned", checkpoints={"claim_mode": "CLAIM"}),
    Case("aligned", 3, ROCKSDB),
    Case("unaligned"),
    Case("unaligned", 3, SMALL, {"unaligned": True, "interval": "50ms"}),
    Case("savepoint"),
    Case("savepoint", 1, ROCKSDB),
    Case("native", 2, ROCKSDB, {"incremental": True, "interval": "50ms"}),
    Case("native", 3, ROCKSDB, {"claim_mode": "CLAIM"}),
    Case("finished"),
    Case("stopped", 3),
]


def place(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy what a run left behind to `tmp_path` and make that the working directory."""
    shutil.copytree(GOLDEN / run, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snapshot(directory: Path) -> Path:
    """Returns the newest snapshot in the directory of a run."""
    return max([*directory.glob("savepoints/*"), *directory.glob("checkpoints/*/chk-*")])


def expected(run: str) -> dict[str, list[Any]]:
    parts = PARTS[run]
    if parts is None:
        return EXPECTED
    wanted = {*parts, "ids", "numbers"} | ({"large"} if "periods" in parts else set())
    return {what: rows for what, rows in EXPECTED.items() if what in wanted}


def prepared_files(directory: Path) -> set[str]:
    """Returns the tokens in the names of output files that are prepared and not committed."""
    return {path.name.rsplit("-", 1)[1] for path in directory.glob("output/*/.pending/*/*/*")}


def committed_files(directory: Path) -> set[str]:
    return {path.name.rsplit("-", 1)[1] for path in directory.glob("output/*/*-*")}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_job_continues_from_a_snapshot_of_an_older_version(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = place(case.run, tmp_path, monkeypatch)
    path, prepared, secret = snapshot(directory), prepared_files(directory), Secret()
    assert results() != expected(case.run), "the run was not interrupted"
    job = make_job(
        "heir",
        sl.Checkpoints(storage=directory / "new", restore_from=path, **case.checkpoints),
        parts=PARTS[case.run],
        parallelism=case.parallelism,
        execution=sl.Execution(**case.execution),
        hook=secret,
    )
    assert job.start(ThreadCluster()).wait("120s") is sl.JobStatus.FINISHED
    assert results() == expected(case.run)
    assert secret.restored == [b"open sesame"]
    assert prepared <= committed_files(directory)
    assert prepared_files(directory) == set()
    assert path.exists() == (case.checkpoints.get("claim_mode") != "CLAIM")


def test_a_new_driver_continues_a_suspended_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = place("suspended", tmp_path, monkeypatch)
    prepared, secret = prepared_files(directory), Secret()
    checkpoints = sl.Checkpoints(storage=directory / "checkpoints")
    handle = make_job("suspended", checkpoints, parts=CORE, hook=secret).start(ThreadCluster())
    assert handle.wait("120s") is sl.JobStatus.FINISHED
    assert (handle.id, handle.attempt) == ("suspended", 2)
    assert results() == expected("suspended")
    assert secret.restored == [b"open sesame"]
    assert prepared <= committed_files(directory)


def test_the_journal_of_a_stopped_job_says_that_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = place("stopped", tmp_path, monkeypatch)
    checkpoints = sl.Checkpoints(storage=directory / "checkpoints", restore_from=snapshot(directory))
    before = results()
    assert make_job("stopped", checkpoints, parts=CORE, id="stopped").run(ThreadCluster()) is sl.JobStatus.FINISHED
    assert results() == before, "it ran again under the same id"
    handle = make_job("stopped", checkpoints, parts=CORE).start(ThreadCluster())
    assert handle.wait("120s") is sl.JobStatus.FINISHED
    assert handle.id == "stopped-2"
    assert results() == expected("stopped")


def test_the_whole_job_without_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_to_the_end(ThreadCluster())
    assert results() == EXPECTED


def test_without_its_state_the_job_writes_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = place("stopped", tmp_path, monkeypatch)
    make_job("stopped", sl.Checkpoints(storage=directory / "new"), parts=CORE).run(ThreadCluster())
    differing = {what for what, rows in results().items() if rows != EXPECTED[what]}
    assert differing >= {"aggregate", "join", "ids", "numbers"}


def test_without_in_flight_data_rows_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = place("unaligned", tmp_path, monkeypatch)
    path = snapshot(directory)
    checkpoints = sl.Checkpoints(
        storage=directory / "new", restore_from=path, ignore_in_flight_of=int(path.name.removeprefix("chk-"))
    )
    make_job("unaligned", checkpoints, parts=CORE).run(ThreadCluster())
    found, whole = results(), expected("unaligned")
    assert {what for what in whole if len(found[what]) < len(whole[what])} >= {"ids", "ledger", "numbers"}


# What the snapshots contain.


@pytest.mark.parametrize("run", PARTS)
def test_snapshots_hold_no_pickles_and_the_state_of_the_hook(run: str) -> None:
    told = facts(snapshot(GOLDEN / run))
    states = [state for operator in told["operators"].values() for state in operator["states"]]
    assert {state["encoding"] for state in states} == {"arrow"}
    assert told["hooks"] == {"secret": len(b"open sesame")}


def test_the_unaligned_checkpoint_has_in_flight_data() -> None:
    operators = facts(snapshot(GOLDEN / "unaligned"))["operators"]
    edges = {(edge["edge"], edge["side"]) for operator in operators.values() for edge in operator["in_flight"]}
    assert edges >= {(f"events->{uid}", side) for uid in ("ledger", "numbering") for side in ("inputs", "outputs")}


def test_the_native_checkpoint_shares_files_with_an_older_one() -> None:
    native = facts(snapshot(GOLDEN / "native"))["operators"]["numbering"]["native"]
    names = [file["path"].rsplit("/", 1)[1] for part in native for file in part["files"] if file["is_shared"]]
    assert {name.split("-")[3][0] for name in names} == {"1", "2"}


def test_the_finished_checkpoint_has_finished_tasks() -> None:
    assert finished_tasks(snapshot(GOLDEN / "finished")) >= {"users", "rules", "events/1"}


def test_the_savepoints_are_canonical_and_one_stopped_its_job() -> None:
    told = [facts(snapshot(GOLDEN / run)) for run in ("savepoint", "stopped")]
    assert [(item["kind"], item["format"]) for item in told] == [
        ("SAVEPOINT", "CANONICAL"),
        ("SYNC_SAVEPOINT", "CANONICAL"),
    ]
