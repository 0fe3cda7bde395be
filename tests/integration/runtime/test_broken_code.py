"""Errors that repeat, and damage that no restart heals: the job ends by itself, and goes on once it is mended."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.integration.runtime.runtime_kit import Start, runs, wait_for_checkpoints, wait_until

import snapline as sl
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering, prove
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing.clusters import ProcessCluster, ThreadCluster

pytestmark = pytest.mark.slow

ROWS = 20_000


class Careless(sl.Operator):
    """Cannot take rows once there is a file; its message is another each time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        if self._file.exists():
            raise ValueError(f"a bad row came at {time.time_ns()}")
        self.context.emit(batch)


def make_job(directory: Path, careless: Path | None = None, rate: int | None = None, **settings: object) -> sl.Job:
    """A job under default settings, but for its checkpoints and whatever `settings` say of those."""
    checkpoints = sl.Checkpoints(**{"storage": directory / "chk", "interval": "200ms", **settings})  # type: ignore[arg-type]
    job = sl.Job("counting", id="counting", parallelism=2, checkpoints=checkpoints)
    stream = job.source(sl.sources.Rate(rate, rows=ROWS, users=50), uid="rows").rebalance()
    if careless is not None:
        stream = stream.apply(Careless(careless), uid="careless", schema=stream.schema)
    numbered = stream.key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED, has_state=True)
    numbered.sink(sl.sinks.Files(directory / "out"), uid="out")
    return job


def texts(handle: MasterHandle) -> list[str]:
    return [text for _, text in handle.events()]


def test_a_row_that_cannot_be_processed_ends_the_job_and_mended_it_goes_on(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "bad-rows"
    broken = start(make_job(tmp_path, careless=file, rate=1000), ProcessCluster())
    wait_for_checkpoints(broken)
    file.touch()
    with pytest.raises(sl.JobFailedError, match="the same error for the 10th time without a completed") as caught:
        broken.wait("120s")
    assert "(in the operator 'careless')" in str(caught.value)
    assert broken.repeats == 10
    assert {f"the same error for the {number} time" for number in ("2nd", "3rd", "9th")} <= set(texts(broken))
    assert "the same error for the 5th time" in caplog.text
    completed = broken.checkpoints().latest.completed
    assert completed is not None
    assert completed.completion is not None
    location = completed.completion.external_path
    assert f"it goes on from {location}" in str(caught.value)

    mended = start(make_job(tmp_path), ProcessCluster())
    assert mended.wait("120s") is sl.JobStatus.FINISHED
    assert mended.id == broken.id == "counting"
    assert mended.attempt > broken.attempt
    restored = mended.checkpoints().latest.restored
    assert restored is not None
    assert restored.external_path == location
    assert any("had failed" in text for text in texts(mended))
    assert prove(tmp_path / "out", ROWS).problems == ()


@pytest.mark.parametrize("harm", ["flipped", "gone"])
def test_a_damaged_checkpoint_ends_the_job_at_once_and_a_backup_brings_it_back(
    start: Start, tmp_path: Path, harm: str
) -> None:
    cluster = ProcessCluster()
    handle = start(make_job(tmp_path, rate=500, interval=None, inline_threshold=0), cluster)
    wait_until(lambda: runs(handle), "the job runs")
    location = Path(handle.checkpoint(timeout="120s"))
    victim = max(
        (path for path in location.iterdir() if path.name != "_metadata"), key=lambda path: path.stat().st_size
    )
    backup = victim.read_bytes()
    match harm:
        case "flipped":
            victim.write_bytes(backup[:-20] + bytes([backup[-20] ^ 1]) + backup[-19:])
        case "gone":
            victim.unlink()
    attempt = handle.attempt
    os.kill(cluster.worker_pids()[0], signal.SIGKILL)
    with pytest.raises(sl.JobFailedError, match=r"[Rr]estore it from a backup") as caught:
        handle.wait("120s")
    assert victim.name in str(caught.value)
    assert handle.attempt == attempt + 1, "it did not try again and again"
    assert (location / "_metadata").exists()

    victim.write_bytes(backup)
    again = start(make_job(tmp_path, inline_threshold=0), ProcessCluster())
    assert again.wait("120s") is sl.JobStatus.FINISHED
    assert prove(tmp_path / "out", ROWS).problems == ()


class Refusing(sl.MasterHook):
    """Refuses all checkpoints while there is a file."""

    name = "refusing"

    def __init__(self, file: Path) -> None:
        self._file = file

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        if self._file.exists():
            raise RuntimeError(f"not now, {checkpoint_id}")
        return b""

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        pass

    def reset(self) -> None:
        pass


def test_checkpoints_that_fail_are_loud_but_not_deafening(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "snapline")
    file = tmp_path / "refuse"
    file.touch()
    checkpoints = sl.Checkpoints(storage=tmp_path / "chk", interval="50ms")
    job = sl.Job("loud", checkpoints=checkpoints, hooks=[Refusing(file)])
    job.source(sl.sources.Rate(1000), uid="rows").sink(sl.sinks.Files(tmp_path / "out"), uid="out")
    handle = start(job, ThreadCluster())
    wait_until(lambda: handle.checkpoints().counts.failed >= 20, "20 failures")
    warnings = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert len(warnings) == 1
    assert "checkpoint 1 failed (TRIGGER_CHECKPOINT_FAILURE)" in warnings[0]
    assert "RuntimeError: not now, 1; mend the hook" in warnings[0]
    assert sum("failed (TRIGGER_CHECKPOINT_FAILURE)" in text for text in texts(handle)) >= 20
    failed = handle.checkpoints().latest.failed
    assert failed is not None
    assert failed.failure is not None
    assert "not now" in failed.failure.message
    file.unlink()
    wait_for_checkpoints(handle, 1)
    assert any(text.startswith("checkpoints complete again, after ") for text in texts(handle))
    handle.cancel("120s")
