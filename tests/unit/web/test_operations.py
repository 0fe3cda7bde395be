from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from snapline.errors import ConfigurationError, StorageError
from snapline.web import operations
from snapline.web.operations import OperationKind, Operations, cancel_after, first_of
from snapline.web.rest_errors import RestError

ID = "0123456789abcdef0123456789ABCDEF"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def done(result: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def failed(error: BaseException) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def test_an_operation_runs_and_ends() -> None:
    known, future = Operations(), Future[str]()
    operation = known.begin(OperationKind.CHECKPOINT, "clicks", None, lambda: future)
    assert operation.is_running
    assert (operation.location, operation.error, operation.checkpoint_id) == (None, None, None)
    future.set_result("s3://bucket/clicks/chk-12/")
    found = known.find(operation.request_id)
    assert found is operation
    assert (found.is_running, found.location, found.checkpoint_id) == (False, "s3://bucket/clicks/chk-12/", 12)


def test_only_checkpoints_have_an_id_in_their_path() -> None:
    known = Operations()
    taken = known.begin(OperationKind.SAVEPOINT, "clicks", None, lambda: done("/data/chk-12"))
    assert taken.checkpoint_id is None
    in_memory = known.begin(OperationKind.CHECKPOINT, "clicks", None, lambda: done(""))
    assert in_memory.checkpoint_id is None


def test_a_given_id_is_honoured_and_a_repeated_one_asks_only_once() -> None:
    known, asked = Operations(), list[int]()

    def start() -> Future[str]:
        asked.append(1)
        return Future()

    first = known.begin(OperationKind.SAVEPOINT, "clicks", ID, start)
    assert first.request_id == ID.lower()
    assert known.begin(OperationKind.SAVEPOINT, "clicks", ID.lower(), start) is first
    assert known.begin(OperationKind.SAVEPOINT, "others", ID, start) is not first
    assert known.begin(OperationKind.CHECKPOINT, "clicks", ID, start) is not first
    assert len(asked) == 3
    with pytest.raises(RestError, match="not 32 hex digits"):
        known.begin(OperationKind.SAVEPOINT, "clicks", "mine", start)


def test_stops_are_found_among_savepoints() -> None:
    known = Operations()
    stop = known.begin(OperationKind.STOP, "clicks", None, Future)
    assert known.find(stop.request_id, OperationKind.SAVEPOINT, "clicks") is stop
    assert known.find(stop.request_id.upper(), OperationKind.SAVEPOINT, "clicks") is stop
    assert known.find(stop.request_id, OperationKind.CHECKPOINT, "clicks") is None
    assert known.find(stop.request_id, OperationKind.SAVEPOINT, "others") is None


def test_what_a_job_refuses_is_not_remembered() -> None:
    known = Operations()
    with pytest.raises(RestError, match="no directory") as refused:
        known.begin(OperationKind.STOP, "clicks", ID, lambda: failed(ConfigurationError("no directory")))
    assert refused.value.status == 400
    assert known.find(ID) is None


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (OperationKind.STOP, StorageError("the job has ended")),
        (OperationKind.DISPOSE, ConfigurationError("no savepoint is there")),
    ],
)
def test_what_fails_soon_has_failed(kind: OperationKind, error: Exception) -> None:
    assert Operations().begin(kind, "clicks", ID, lambda: failed(error)).error is error


def test_a_failure_is_told_later() -> None:
    known, future = Operations(), Future[str]()
    operation = known.begin(OperationKind.STOP, "clicks", None, lambda: future)
    future.set_exception(StorageError("disk full"))
    assert str(operation.error) == "disk full"
    assert operation.location is None
    dropped = known.begin(OperationKind.STOP, "clicks", None, Future)
    dropped.future.cancel()
    assert "dropped" in str(dropped.error)


def test_outcomes_expire_and_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    known = Operations(clock)
    first = known.begin(OperationKind.CHECKPOINT, "clicks", None, done)
    running = known.begin(OperationKind.CHECKPOINT, "clicks", None, Future)
    assert known.find(first.request_id) is first
    clock.now_s = operations.KEPT_S + 1
    assert known.find(first.request_id) is None
    assert known.find(running.request_id) is running
    monkeypatch.setattr(operations, "MAX_KEPT", 2)
    ids = [known.begin(OperationKind.CHECKPOINT, "clicks", None, done).request_id for _ in range(3)]
    assert [known.find(id) is not None for id in ids] == [False, True, True]
    monkeypatch.setattr(operations, "MAX_RUNNING", 1)
    with pytest.raises(RestError) as refused:
        known.begin(OperationKind.CHECKPOINT, "clicks", None, Future)
    assert refused.value.status == 429


def test_a_job_is_cancelled_after_its_savepoint() -> None:
    savepoint, cancelled = Future[str](), Future[None]()
    asked = list[int]()

    def cancel() -> Future[None]:
        asked.append(1)
        return cancelled

    outcome = cancel_after(savepoint, cancel)
    assert asked == []
    savepoint.set_result("/data/savepoint")
    assert asked == [1]
    assert not outcome.done()
    cancelled.set_result(None)
    assert outcome.result() == "/data/savepoint"


def test_a_job_goes_on_without_its_savepoint() -> None:
    outcome = cancel_after(failed(StorageError("disk full")), lambda: pytest.fail("cancelled"))
    assert str(outcome.exception()) == "disk full"
    outcome = cancel_after(done("/data/savepoint"), lambda: failed(StorageError("no")))
    assert str(outcome.exception()) == "no"


def test_the_first_that_can_does_it() -> None:
    assert first_of([lambda: failed(StorageError("not mine")), done]).result() is None
    problem = first_of([lambda: failed(StorageError("not mine")), lambda: failed(StorageError("gone"))]).exception()
    assert str(problem) == "not mine; gone"
    assert isinstance(first_of([]).exception(), ConfigurationError)
