"""Drivers that are killed (SIGKILL) while they write checkpoints: the next one goes on, with nothing lost or left over.

The same file is the program of those drivers.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from snapline.devtools.kit.counting_job import CountingJob
from snapline.devtools.kit.stored_snapshots import damage, leftovers
from snapline.errors import SnaplineError
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_writer import WriteOptions

WORDS = [f"word {number}" for number in range(1_000)]
KILLS = 6
LIFE_S = 0.6
WAIT_S = 60.0


def start(directory: Path, backend: str, driver: str) -> CountingJob:
    return CountingJob(
        FileObjects(),
        str(directory / "job"),
        directory / "databases" / driver,
        backend=backend,
        driver=driver,
        retained=2,
        options=WriteOptions(inline_bytes=0),
    )


def run(directory: Path, backend: str, driver: str) -> None:
    """Count and take checkpoints for ever; tell each one that is complete, and at last what has put an end to it."""
    job = start(directory, backend, driver)
    sys.stdout.write("started\n")
    sys.stdout.flush()
    try:
        while True:
            job.count(WORDS)
            snapshot = job.checkpoint()
            sys.stdout.write(f"{snapshot.id} {job.counts(WORDS[:1])[0]}\n")
            sys.stdout.flush()
    except SnaplineError as error:
        sys.stdout.write(f"{type(error).__name__}\n")
    finally:
        job.close()


def spawn(directory: Path, backend: str, driver: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, str(directory), backend, driver]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def told(output: str) -> list[tuple[int, int]]:
    """The checkpoints that a driver was told of, and how often it had counted each word; a last line may be cut off."""
    lines = [line.split() for line in output.splitlines(keepends=True) if line.endswith("\n")]
    return [(int(line[0]), int(line[1])) for line in lines if len(line) == 2]


def check(directory: Path, job: CountingJob) -> tuple[int, int]:
    """That the storage of the job is in order; its latest checkpoint, and the count in it."""
    snapshots = job.recovered.snapshots
    assert job.recovered.warnings == ()
    assert [damage(job.objects, snapshot) for snapshot in snapshots] == [[] for _ in snapshots]
    assert leftovers(job.objects, str(directory / "job"), snapshots) == []
    assert list((directory / "job").rglob(".tmp-*")) == [], "unfinished files"
    checkpoints = [path for path in (directory / "job").glob("chk-*") if not any(path.iterdir())]
    assert checkpoints == [], "empty directories"
    (count,) = set(job.counts(WORDS))
    return 0 if job.latest is None else job.latest.id, count or 0


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_a_killed_driver_loses_nothing_it_was_told_is_complete(tmp_path: Path, backend: str) -> None:
    random = Random(7)
    latest = (0, 0)
    completed = 0
    for number in range(KILLS):
        process = spawn(tmp_path, backend, f"driver {number}")
        try:
            # It does not end by itself.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(random.uniform(0, LIFE_S))
        finally:
            process.kill()
            output, _ = process.communicate(timeout=WAIT_S)
        found = told(output)
        completed += len(found)
        latest = max([latest, *found])
        job = start(tmp_path, backend, f"heir {number}")
        now = check(tmp_path, job)
        job.close()
        assert now >= latest, "a driver was told that a checkpoint is complete, and it is lost"
        latest = now
    assert completed


@pytest.mark.slow
def test_of_two_drivers_the_older_stops(tmp_path: Path) -> None:
    first = spawn(tmp_path, "memory", "first")
    second = spawn(tmp_path, "memory", "second")
    try:
        older, _ = first.communicate(timeout=WAIT_S)
        # The newer one goes on.
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(LIFE_S / 2)
    finally:
        first.kill()
        second.kill()
        newer, _ = second.communicate(timeout=WAIT_S)
    # It may also be in the middle of a write when the newer one sweeps what older attempts have left.
    assert older.splitlines()[-1].endswith(("FencedError", "StorageError"))
    ids = [entry[0] for entry in told(older)], [entry[0] for entry in told(newer)]
    assert not set(ids[0]) & set(ids[1]), "both had the same id"
    assert max(ids[0], default=0) < min(ids[1])
    job = start(tmp_path, "memory", "third")
    assert check(tmp_path, job) >= told(newer)[-1]
    job.close()


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
