"""Which attempt each subtask runs in."""

from __future__ import annotations

from snapline.protocol.executions import Executions
from snapline.types import ExecutionId, SubtaskId

A, B = SubtaskId("a", 0), SubtaskId("b", 0)


def test_all_run_in_the_first_attempt() -> None:
    executions = Executions(1)
    assert executions.of(A) == ExecutionId(A, 1)
    assert executions.is_current(ExecutionId(B, 1))
    assert not executions.is_current(ExecutionId(B, 2))


def test_who_is_kept_goes_on_in_its_attempt_however_often_others_restart() -> None:
    executions = Executions(1)
    executions.restarted(2, [A])
    executions.restarted(4, [A])
    assert (executions.of(A), executions.of(B)) == (ExecutionId(A, 1), ExecutionId(B, 4))
    assert not executions.is_current(ExecutionId(B, 2))
    executions.restarted(5, [B])
    assert (executions.of(A), executions.of(B)) == (ExecutionId(A, 5), ExecutionId(B, 4))
    executions.restarted(6)
    assert (executions.of(A), executions.of(B)) == (ExecutionId(A, 6), ExecutionId(B, 6))
