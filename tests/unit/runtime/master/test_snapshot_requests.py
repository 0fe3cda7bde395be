"""Whoever asks for a snapshot gets an answer, once."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from snapline.api.job_handle import SnapshotFailedError
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.snapshot import Snapshot
from snapline.runtime.master.snapshot_requests import Requests
from snapline.types import FailureReason, JobStatus, SnapshotKind


def _asked(requests: Requests, kind: SnapshotKind) -> tuple[TriggerRequest, Future[str], Snapshot]:
    request, answer = TriggerRequest("r", kind, False, False, 0), Future[str]()
    requests.add(request, answer)
    return request, answer, Snapshot(1, kind, 1, 0, "/saved", {})


def test_a_snapshot_that_is_complete_is_told_by_its_path() -> None:
    requests = Requests()
    request, answer, snapshot = _asked(requests, SnapshotKind.SAVEPOINT)
    requests.completed(request, snapshot)
    requests.completed(request, snapshot)
    assert answer.result(0) == "/saved"


def test_a_stop_is_told_at_the_end() -> None:
    requests = Requests()
    request, answer, snapshot = _asked(requests, SnapshotKind.SYNC_SAVEPOINT)
    requests.completed(request, snapshot)
    assert not answer.done()
    requests.ended(JobStatus.FINISHED)
    assert answer.result(0) == "/saved"


@pytest.mark.parametrize("status", [JobStatus.CANCELED, JobStatus.SUSPENDED])
def test_a_stop_that_ends_in_another_way_names_the_savepoint(status: JobStatus) -> None:
    requests = Requests()
    request, answer, snapshot = _asked(requests, SnapshotKind.SYNC_SAVEPOINT)
    requests.completed(request, snapshot)
    requests.ended(status)
    with pytest.raises(SnapshotFailedError, match=f"/saved.*{status.value}"):
        answer.result(0)


def test_failures_tell_the_reason() -> None:
    requests = Requests()
    request, answer, _ = _asked(requests, SnapshotKind.CHECKPOINT)
    requests.failed(request, FailureReason.IO_EXCEPTION, "disk full")
    with pytest.raises(SnapshotFailedError, match=r"no checkpoint.*IO_EXCEPTION.*disk full"):
        answer.result(0)
    _, waiting, _ = _asked(requests, SnapshotKind.CHECKPOINT)
    requests.ended(JobStatus.FAILED)
    with pytest.raises(SnapshotFailedError, match="FAILED"):
        waiting.result(0)
