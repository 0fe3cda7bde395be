"""What people see of a job after its driver was killed, replaced, or has come back late, and once no driver runs."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.integration.runtime.history_script import history_job
from tests.integration.runtime.runtime_kit import Start, wait_for_checkpoints, wait_until

import snapline as sl
from snapline.errors import DamagedError
from snapline.protocol.statistics.job_view import JobView
from snapline.runtime.master import job_history
from snapline.runtime.master.stored_job import stored_jobs
from snapline.storage.history_format import decode
from snapline.storage.objects.file_objects import FileObjects
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "history_script.py"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests cannot wait as long as people can."""
    monkeypatch.setattr(job_history, "WRITE_INTERVAL_S", 0.5)
    monkeypatch.setattr(job_history, "SOON_S", 0.1)


class Drivers:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        log = (self._directory / f"driver-{len(self._started)}.log").open("wb")
        with log:
            driver = subprocess.Popen([sys.executable, str(SCRIPT), str(self._directory)], stdout=log, stderr=log)
        self._started.append(driver)
        return driver

    def close(self) -> None:
        for driver in self._started:
            with contextlib.suppress(ProcessLookupError):
                driver.send_signal(signal.SIGCONT)
                driver.kill()
            driver.wait(120)


@pytest.fixture
def drivers(nothing_left: Path, tmp_path: Path) -> Iterator[Drivers]:
    made = Drivers(tmp_path)
    yield made
    made.close()


def monitor(directory: Path) -> Path:
    return directory / "storage" / "clicks" / "monitor"


def stored(directory: Path) -> JobView | None:
    """What the only file of the history says; None if there is none, or several."""
    files = list(monitor(directory).glob("history-*"))
    if len(files) != 1:
        return None
    with contextlib.suppress(DamagedError, FileNotFoundError):
        return decode(files[0].read_bytes(), files[0].name).view
    return None


def has_stored(directory: Path, completed: int, attempt: int = 1) -> bool:
    view = stored(directory)
    return view is not None and view.statistics.counts.completed >= completed and view.attempt >= attempt


def look(directory: Path) -> JobView:
    (job,) = stored_jobs(FileObjects(), str(directory))
    try:
        return job.look()
    finally:
        job.close()


def test_the_next_driver_shows_what_a_killed_one_saw(start: Start, drivers: Drivers, tmp_path: Path) -> None:
    (tmp_path / "once").touch()
    first = drivers.start()
    wait_until(lambda: has_stored(tmp_path, 5, attempt=2), "it fails, runs again and takes checkpoints", 120.0)
    first.kill()
    first.wait(120)
    before = stored(tmp_path)
    assert before is not None
    seen = look(tmp_path / "storage")
    assert (seen.status, seen.is_live) == (JobStatus.RUNNING, False)

    handle = start(history_job(tmp_path), ThreadCluster())
    wait_until(lambda: handle.view().failed_attempts == 1, "the past is there")
    wait_for_checkpoints(handle, before.statistics.counts.completed + 2)
    after = handle.view()
    assert after.attempt == before.attempt + 1
    counts, past = after.statistics.counts, before.statistics.counts
    assert counts.restored == past.restored + 1
    assert counts.failed >= past.failed
    ids = [record.id for record in after.statistics.history]
    known = {record.id for record in before.statistics.history if record.completion or record.failure}
    assert known <= set(ids)
    assert ids == sorted(ids, reverse=True)
    old = {record.id: record for record in before.statistics.history if record.completion is not None}
    for record in after.statistics.history:
        if record.id in old:
            assert record.totals == old[record.id].totals
            assert [part.totals for part in record.vertices] == [part.totals for part in old[record.id].vertices]
    assert any(part.subtasks for record in after.statistics.history[-3:] for part in record.vertices)
    assert "a bad click" in after.failures[0].cause
    assert (after.failures[0].attempt, after.failures[0].trace) == (1, before.failures[0].trace)
    texts = [text for _, text in after.events]
    assert texts.count("CREATED -> INITIALIZING") == 2
    assert any("attempt 1 failed" in text for text in texts)
    for number, said in before.explanations.items():
        if number in known:
            assert after.explanations[number].sentence == said.sentence
    summary, past_summary = after.statistics.summary.state_bytes, before.statistics.summary.state_bytes
    assert summary.count > past_summary.count
    assert summary.min <= past_summary.min
    assert summary.max >= past_summary.max

    handle.cancel("120s")
    end = look(tmp_path / "storage" / "clicks")
    assert (end.status, end.failed_attempts) == (JobStatus.CANCELED, 1)
    assert end.statistics.counts.completed >= counts.completed
    assert end.statistics.counts.in_progress == 0
    assert [vertex.id for vertex in end.plan.vertices] == ["clicks", "per-user"]
    assert end.restart == sl.FixedDelay(attempts=5, delay="10ms")
    assert len(list(monitor(tmp_path).iterdir())) == 1, "one driver's file is left, whatever came before"


def test_a_damaged_history_costs_the_past_and_nothing_else(
    start: Start, drivers: Drivers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = drivers.start()
    wait_until(lambda: has_stored(tmp_path, 1), "it has a history", 120.0)
    first.kill()
    first.wait(120)
    (file,) = monitor(tmp_path).glob("history-*")
    file.write_bytes(file.read_bytes()[:-20])
    with caplog.at_level(logging.WARNING):
        handle = start(history_job(tmp_path), ThreadCluster())
        wait_for_checkpoints(handle, 2)
        wait_until(lambda: not file.exists() and stored(tmp_path) is not None, "it has a history of its own")
    assert [text for text in caplog.messages if "damaged" in text] == [
        f"job clicks: the history {file.name} is damaged: it is cut off, or larger than 268435456 bytes; it is left out"
    ]
    assert handle.status() is JobStatus.RUNNING


def test_a_driver_that_comes_back_late_does_not_disturb_the_next(
    start: Start, drivers: Drivers, tmp_path: Path
) -> None:
    first = drivers.start()
    wait_until(lambda: has_stored(tmp_path, 3), "it has a history", 120.0)
    first.send_signal(signal.SIGSTOP)
    handle = start(history_job(tmp_path), ThreadCluster())
    wait_for_checkpoints(handle, 6)
    wait_until(lambda: has_stored(tmp_path, 5, attempt=2), "it has taken the history over")
    first.send_signal(signal.SIGCONT)
    assert first.wait(120) == 0, "it has found out that it is replaced"
    assert "SUSPENDED" in (tmp_path / "driver-0.log").read_text()
    completed = handle.view().statistics.counts.completed
    wait_until(lambda: look(tmp_path / "storage").statistics.counts.completed > completed, "the history goes on", 120.0)
    now, view = look(tmp_path / "storage"), handle.view()
    assert now.attempt == 2
    assert now.statistics.counts.completed <= view.statistics.counts.completed
    ids = [record.id for record in now.statistics.history]
    assert len(ids) == len(set(ids))
    handle.suspend("20s")
    third = start(history_job(tmp_path), ThreadCluster())
    wait_until(lambda: third.view().statistics.counts.completed > view.statistics.counts.completed, "it goes on")
    wait_until(lambda: len(list(monitor(tmp_path).iterdir())) == 1, "files of earlier drivers are removed")


def test_a_finished_job_leaves_its_history_and_a_driver_that_finds_it_ended_shows_it(
    start: Start, tmp_path: Path
) -> None:
    handle = start(history_job(tmp_path, rows=400), ThreadCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    assert not list((tmp_path / "storage" / "clicks").glob("chk-*")), "its checkpoints are gone"
    (file,) = monitor(tmp_path).iterdir()
    before = file.read_bytes()
    view = look(tmp_path / "storage")
    assert (view.status, view.ended_ms is None) == (JobStatus.FINISHED, False)
    assert all(record.completion is None or record.completion.discarded for record in view.statistics.history)
    again = start(history_job(tmp_path, rows=400), ThreadCluster())
    assert again.wait("120s") is JobStatus.FINISHED
    assert again.view().statistics.counts.completed == view.statistics.counts.completed
    assert file.read_bytes() == before


def test_a_job_whose_directory_is_deleted_does_not_bring_it_back(start: Start, tmp_path: Path) -> None:
    handle = start(history_job(tmp_path), ThreadCluster())
    wait_until(lambda: has_stored(tmp_path, 1), "it has a history")
    (tmp_path / "storage" / "clicks").rename(tmp_path / "moved")
    with pytest.raises(sl.JobFailedError, match="was deleted while it ran"):
        handle.wait("120s")
    assert not monitor(tmp_path).exists()


def test_without_a_history_nothing_is_written(start: Start, tmp_path: Path) -> None:
    handle = start(history_job(tmp_path, rows=100, history=0), ThreadCluster())
    handle.wait("120s")
    assert not monitor(tmp_path).exists()


# Logs and traces.


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """Keeps spans; a program sets its provider up only once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def test_checkpoints_and_starts_are_spans(start: Start, tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    (tmp_path / "once").touch()
    handle = start(history_job(tmp_path, rows=1000, traces=True), ThreadCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    spans = exporter.get_finished_spans()
    starts = [dict(span.attributes or {}) for span in spans if span.name == "JobInitialization"]
    assert [(it["attempt"], it["initializationStatus"]) for it in starts] == [(1, "COMPLETED"), (2, "COMPLETED")]
    restored = handle.view().statistics.latest.restored
    assert starts[1].get("checkpointId") == (None if restored is None else restored.id)
    made = {int(str((span.attributes or {})["checkpointId"])): span for span in spans if span.name == "Checkpoint"}
    history = {record.id: record for record in handle.view().statistics.history}
    assert set(made) == set(history)
    for number, span in made.items():
        record, found = history[number], dict(span.attributes or {})
        assert span.start_time == record.trigger_ms * 1_000_000
        assert (found["checkpointStatus"], found["fullSize"], found["job_id"]) == (
            record.status.value,
            record.totals.state_bytes,
            "clicks",
        )
        if record.completion is not None:
            assert span.end_time == record.completion.completed_ms * 1_000_000
            assert found["metadataSize"] == record.completion.metadata_bytes
            assert found["sumStateSizeBytes"] == record.totals.state_bytes


def test_records_of_a_job_say_whose_they_are(start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "once").touch()
    with caplog.at_level(logging.INFO):
        handle = start(history_job(tmp_path, rows=1000), ThreadCluster())
        handle.wait("120s")
    ours = [record for record in caplog.records if record.name.startswith("snapline.runtime")]
    assert {(vars(record).get("job"), vars(record).get("job_id")) for record in ours} == {("clicks", "clicks")}
    assert all("attempt" in vars(record) for record in ours), [record.getMessage() for record in ours]
    (failed,) = {
        (vars(record)["vertex"], vars(record)["attempt"])
        for record in ours
        if record.name.endswith("task.task") and record.levelno == logging.WARNING
    }
    assert failed == ("clicks", 1)
    begun = [vars(record).get("checkpoint") for record in ours if "starts from" in record.getMessage()]
    restored = handle.view().statistics.latest.restored
    assert begun == [None, None if restored is None else restored.id]
    # a job without trouble says little: where it starts, that it runs, how it ended
    assert len([record for record in ours if record.levelno == logging.INFO]) <= 6


def test_operator_processes_write_json_lines_if_they_are_told_to(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "once").touch()
    monkeypatch.setenv("SNAPLINE_LOG_FORMAT", "json")
    handle = start(history_job(tmp_path, rows=1000), ProcessCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if "a bad click" in line["message"]][:1]
    assert (line["job"], line["job_id"], line["vertex"], line["attempt"], line["level"]) == (
        "clicks",
        "clicks",
        "clicks",
        1,
        "WARNING",
    )
    assert line["subtask"] in (0, 1)
