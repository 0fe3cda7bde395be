"""Spans of checkpoints and starts; `tests/integration/runtime/test_history.py` has those of a whole job."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.unit.runtime.master.master_kit import make_spec
from tests.unit.runtime.runtime_bench import Bench

from snapline.config import Monitoring
from snapline.devtools.kit.sample_views import STARTED_MS, sample_record
from snapline.errors import ConfigurationError
from snapline.protocol.statistics.checkpoint_records import (
    LatestCheckpoints,
    RestoredCheckpoint,
    StatisticsSnapshot,
)
from snapline.runtime.master import job_traces
from snapline.runtime.master.job_traces import JobTraces, check_traces, checkpoint_attributes
from snapline.types import SnapshotKind


class Setup(Bench):
    def __init__(self) -> None:
        super().__init__()
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.statistics = StatisticsSnapshot()
        self.traces = JobTraces(make_spec(), self.scheduler, lambda: self.statistics, provider.get_tracer("test"))

    def spans(self) -> tuple[ReadableSpan, ...]:
        self.run()
        return self.exporter.get_finished_spans()


def milliseconds(span: ReadableSpan) -> tuple[int, int]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time // 1_000_000, span.end_time // 1_000_000


def test_a_completed_checkpoint_is_a_span_with_flinks_attributes() -> None:
    setup = Setup()
    record = sample_record(7)
    setup.traces.checkpoint_ended(record)
    (span,) = setup.spans()
    assert span.name == "Checkpoint"
    assert milliseconds(span) == (record.trigger_ms, record.trigger_ms + 300)
    assert span.parent is None
    assert span.status.status_code is StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "job_id": "job",
        "job_name": "job",
        "checkpointId": 7,
        "fullSize": 12_004,
        "checkpointedSize": 6_004,
        "metadataSize": 1234,
        "checkpointStatus": "COMPLETED",
        "isUnaligned": False,
        "checkpointType": "CHECKPOINT",
        "maxStateSizeBytes": 2002,
        "sumStateSizeBytes": 12_004,
        "maxCheckpointedSizeBytes": 1002,
        "sumCheckpointedSizeBytes": 6_004,
        "maxCheckpointStartDelayMs": 8,
        "sumCheckpointStartDelayMs": 16,
        "maxAlignmentDurationMs": 6,
        "sumAlignmentDurationMs": 12,
        "maxSyncCheckpointDurationMs": 2,
        "sumSyncCheckpointDurationMs": 4,
        "maxAsyncCheckpointDurationMs": 4,
        "sumAsyncCheckpointDurationMs": 8,
        "maxProcessedDataBytes": 10,
        "sumProcessedDataBytes": 60,
        "maxPersistedDataBytes": 20,
        "sumPersistedDataBytes": 120,
    }


def test_a_failed_one_is_an_error() -> None:
    setup = Setup()
    record = sample_record(7, failed=True)
    setup.traces.checkpoint_ended(record)
    (span,) = setup.spans()
    assert milliseconds(span) == (record.trigger_ms, record.trigger_ms + 500)
    assert (span.status.status_code, span.status.description) == (
        StatusCode.ERROR,
        "CHECKPOINT_EXPIRED: subtask clicks/0 was slow",
    )
    assert dict(span.attributes or {})["checkpointStatus"] == "FAILED"


def test_what_was_not_measured_is_left_out() -> None:
    record = sample_record(7, {"clicks": 1}, kind=SnapshotKind.SAVEPOINT)
    found = checkpoint_attributes(replace(record, vertices=(), starts_unaligned=True))
    assert not [name for name in found if name.startswith(("max", "sum"))]
    assert (found["checkpointType"], found["isUnaligned"]) == ("SAVEPOINT", False)
    unaligned = replace(record, kind=SnapshotKind.CHECKPOINT, starts_unaligned=True)
    assert checkpoint_attributes(unaligned)["isUnaligned"] is True


def test_the_start_of_an_attempt_is_a_span() -> None:
    setup = Setup()
    restored = RestoredCheckpoint(7, STARTED_MS + 20, False, "/data/chk-7")
    setup.statistics = StatisticsSnapshot(latest=LatestCheckpoints(restored=restored), history=(sample_record(7),))
    setup.traces.attempt_ended_start(3, STARTED_MS, STARTED_MS + 900, "")
    setup.traces.attempt_ended_start(4, STARTED_MS + 1000, STARTED_MS + 1100, "no executors")
    first, second = setup.spans()
    assert (first.name, milliseconds(first)) == ("JobInitialization", (STARTED_MS, STARTED_MS + 900))
    assert dict(first.attributes or {}) == {
        "job_id": "job",
        "job_name": "job",
        "attempt": 3,
        "initializationStatus": "COMPLETED",
        "checkpointId": 7,
        "fullSize": 12_004,
    }
    assert dict(second.attributes or {}) == {
        "job_id": "job",
        "job_name": "job",
        "attempt": 4,
        "initializationStatus": "FAILED",
    }
    assert (second.status.status_code, second.status.description) == (StatusCode.ERROR, "no executors")


def test_spans_that_pile_up_are_dropped_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(job_traces, "MAX_WAITING", 2)
    setup = Setup()
    for number in range(1, 6):
        setup.traces.checkpoint_ended(sample_record(number))
    assert len(setup.spans()) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "job job: spans that were not reported so far: 1: 2 spans wait for the exporter"
    ]
    setup.traces.checkpoint_ended(sample_record(6))
    assert len(setup.spans()) == 3


def test_the_end_waits_for_what_is_to_be_reported() -> None:
    setup = Setup()
    setup.traces.checkpoint_ended(sample_record(1))
    closed = setup.traces.close()
    assert not closed.done()
    setup.traces.checkpoint_ended(sample_record(2))
    assert len(setup.spans()) == 1, "after the end there is nothing to report"
    assert closed.done()
    assert Setup().traces.close().done()


def test_an_error_of_the_sdk_is_a_warning(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()
    monkeypatch.setattr(job_traces, "checkpoint_attributes", lambda _: 1 / 0)
    setup.traces.checkpoint_ended(sample_record(1))
    assert setup.spans() == ()
    assert "ZeroDivisionError" in caplog.text


def test_without_the_package_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    check_traces(Monitoring(traces=True))
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    check_traces(Monitoring())
    with pytest.raises(ConfigurationError, match=r"snapline\[otel\]"):
        check_traces(Monitoring(traces=True))
