"""The tasks of one attempt in one process: wired, started, given up, stopped."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.unit.runtime.slot.slot_kit import (
    DEADLINE_S,
    deploy,
    environment,
    executions,
    make_exchange,
    make_shipment,
    no_directory,
    objects,
)

from snapline.errors import EngineError
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.messages import Acknowledge, CheckpointMeasured, Decline, EventToCoordinator
from snapline.runtime.slot.attempt import Attempt
from snapline.types import ExecutionId, TaskStatus


class Reports:
    """Keeps what the tasks of an attempt report."""

    def __init__(self) -> None:
        self.statuses: queue.SimpleQueue[tuple[ExecutionId, TaskStatus, str]] = queue.SimpleQueue()

    def task_changed(
        self,
        execution: ExecutionId,
        status: TaskStatus,
        error: str = "",
        trace: str = "",
        *,
        is_final: bool = False,
        identity: ErrorIdentity | None = None,
    ) -> None:
        self.statuses.put((execution, status, error))

    def checkpoint_answered(self, answer: Acknowledge | Decline | CheckpointMeasured) -> None:
        raise AssertionError("no checkpoint is taken here")

    def event_sent(self, event: EventToCoordinator) -> None:
        """The source asks for splits. It gets none, and waits."""

    def source_ended(self, execution: ExecutionId) -> None:
        raise AssertionError("no source ends here")

    def next(self, count: int) -> list[tuple[str, TaskStatus]]:
        found = [self.statuses.get(timeout=DEADLINE_S) for _ in range(count)]
        return sorted((execution.subtask.vertex, status) for execution, status, _ in found)


@contextmanager
def making(number: int = 1, **fields: Any) -> Iterator[tuple[Attempt, Reports]]:
    shipment, exchange, reports = make_shipment(), make_exchange(), Reports()
    with environment() as threads:
        attempt = Attempt(
            deploy(shipment, exchange.address, number, **fields),
            0,
            shipment,
            exchange,
            objects(),
            threads,
            reports,
            no_directory,
            lambda _, error: reports.statuses.put((executions(shipment)[0], TaskStatus.FAILED, error)),
        )
        try:
            yield attempt, reports
        finally:
            assert attempt.stop(DEADLINE_S)
            exchange.close()


def test_all_tasks_start_and_stop() -> None:
    with making(4) as (attempt, reports):
        attempt.start()
        vertices = [execution.subtask.vertex for execution in attempt.tasks]
        assert reports.next(2) == sorted((vertex, TaskStatus.RUNNING) for vertex in vertices)
        assert all(execution.attempt == attempt.number == 4 for execution in attempt.tasks)
        assert len(attempt.metrics()) == 2
        assert attempt.stop(DEADLINE_S)
        assert attempt.is_given_up
        assert attempt.metrics() == []
        assert not attempt.has_finished


def test_an_attempt_that_was_given_up_before_starts_no_task() -> None:
    with making() as (attempt, reports):
        attempt.give_up()
        with pytest.raises(EngineError, match="after `connect` or `close`"):
            attempt.start()
        assert not any(task.is_alive for task in attempt.tasks.values())
        assert reports.statuses.empty()


def test_what_had_finished_before_is_not_run_again() -> None:
    with making(finished=True) as (attempt, reports):
        attempt.start()
        assert attempt.tasks == {}
        assert attempt.has_finished
        assert reports.statuses.empty()


def test_a_task_that_does_not_return_is_not_waited_for() -> None:
    with making() as (attempt, reports):
        attempt.start()
        reports.next(2)
        may_return, has_begun = threading.Event(), threading.Event()

        def user_code() -> None:
            has_begun.set()
            may_return.wait(DEADLINE_S)

        task = next(iter(attempt.tasks.values()))
        task.mailbox.post(user_code)
        assert has_begun.wait(DEADLINE_S)
        assert not attempt.stop(0.01)
        may_return.set()
