"""User requests under way: checkpoints, savepoints, stops."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from snapline.api.job_handle import SnapshotFailedError
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.snapshot import Snapshot
from snapline.types import FailureReason, JobStatus


@dataclass(frozen=True, slots=True)
class _Stop:
    location: str
    answer: Future[str]


class Requests:
    """The answers users wait for. Used on the loop only; other threads read the answers."""

    def __init__(self) -> None:
        self._waiting: dict[str, Future[str]] = {}
        self._stops: dict[int, _Stop] = {}

    def add(self, request: TriggerRequest, answer: Future[str]) -> None:
        self._waiting[request.name] = answer

    def completed(self, request: TriggerRequest, snapshot: Snapshot) -> None:
        """The snapshot is complete; a stop waits on for the end of the job."""
        answer = self._waiting.pop(request.name, None)
        if answer is None:
            return
        if snapshot.kind.is_synchronous:
            self._stops[snapshot.id] = _Stop(snapshot.location, answer)
        else:
            answer.set_result(snapshot.location)

    def failed(self, request: TriggerRequest, reason: FailureReason, message: str) -> None:
        answer = self._waiting.pop(request.name, None)
        if answer is not None:
            answer.set_exception(SnapshotFailedError(f"no {_name(request)} was taken ({reason.value}): {message}"))

    def stop_failed(self, snapshot: Snapshot, cause: str) -> None:
        stop = self._stops.pop(snapshot.id, None)
        if stop is not None:
            stop.answer.set_exception(
                SnapshotFailedError(
                    f"the savepoint {stop.location} is complete, but the job did not end with it: {cause}; it "
                    "continues from that savepoint unless its restart strategy forbids it"
                )
            )

    def ended(self, status: JobStatus) -> None:
        for answer in self._waiting.values():
            answer.set_exception(SnapshotFailedError(f"no snapshot was taken: the job has ended ({status.value})"))
        for stop in self._stops.values():
            if status is JobStatus.FINISHED:
                stop.answer.set_result(stop.location)
            else:
                stop.answer.set_exception(
                    SnapshotFailedError(
                        f"the savepoint {stop.location} is complete, but the job ended in another way: {status.value}"
                    )
                )
        self._waiting.clear()
        self._stops.clear()


def _name(request: TriggerRequest) -> str:
    return "savepoint" if request.kind.is_savepoint else "checkpoint"
