"""The failure counter: what counts, how often, and when the job fails."""

from __future__ import annotations

import pytest

from snapline.errors import ConfigurationError
from snapline.protocol.coordinator.failure_counter import FailureCounter
from snapline.types import NO_CHECKPOINT, FailureReason

DECLINED = FailureReason.CHECKPOINT_DECLINED
COUNTED = [
    FailureReason.IO_EXCEPTION,
    FailureReason.CHECKPOINT_ASYNC_EXCEPTION,
    FailureReason.CHECKPOINT_DECLINED,
    FailureReason.CHECKPOINT_EXPIRED,
    FailureReason.FINALIZE_CHECKPOINT_FAILURE,
]
IGNORED = [reason for reason in FailureReason if reason not in COUNTED]


def fail(
    counter: FailureCounter,
    checkpoint_id: int,
    reason: FailureReason = DECLINED,
    *,
    savepoint: bool = False,
    synchronous: bool = False,
    from_task: bool = True,
) -> bool:
    return counter.failed(checkpoint_id, reason, savepoint=savepoint, synchronous=synchronous, from_task=from_task)


def test_f2_an_ignored_reason_neither_counts_nor_ends_the_run() -> None:
    counter = FailureCounter(2)
    outcomes = [
        fail(counter, 1),
        fail(counter, 2),
        fail(counter, 3, FailureReason.JOB_FAILOVER_REGION),
        fail(counter, 4),
    ]
    assert outcomes == [False, False, False, True]


def test_f4_an_id_counts_once() -> None:
    counter = FailureCounter(2)
    outcomes = [
        fail(counter, 1),
        fail(counter, 2),
        fail(counter, 3, FailureReason.JOB_FAILOVER_REGION),
        fail(counter, 2),
    ]
    assert outcomes == [False, False, False, False]


@pytest.mark.parametrize("from_task", [True, False])
@pytest.mark.parametrize("reason", COUNTED)
def test_counted_reasons_fail_a_job_that_tolerates_none(reason: FailureReason, from_task: bool) -> None:
    assert fail(FailureCounter(0), 1, reason, from_task=from_task)


@pytest.mark.parametrize("from_task", [True, False])
@pytest.mark.parametrize("reason", IGNORED)
def test_ignored_reasons_never_fail_a_job(reason: FailureReason, from_task: bool) -> None:
    counter = FailureCounter(0)
    assert not any(fail(counter, checkpoint_id, reason, from_task=from_task) for checkpoint_id in range(1, 5))
    assert fail(counter, 4), "an id that failed for an ignored reason may still count"


def test_a_failure_without_an_id_counts_each_time() -> None:
    counter = FailureCounter(2)
    outcomes = [fail(counter, NO_CHECKPOINT, FailureReason.IO_EXCEPTION, from_task=False) for _ in range(3)]
    assert outcomes == [False, False, True]


def test_a_failure_without_an_id_counts_after_a_success_too() -> None:
    counter = FailureCounter(0)
    counter.completed(7)
    assert fail(counter, NO_CHECKPOINT, FailureReason.IO_EXCEPTION, from_task=False)


def test_the_success_of_a_newer_checkpoint_ends_the_run() -> None:
    counter = FailureCounter(1)
    assert not fail(counter, 1)
    counter.completed(2)
    assert not fail(counter, 3)
    assert fail(counter, 4)


def test_the_success_of_an_older_checkpoint_does_not_end_the_run() -> None:
    counter = FailureCounter(1)
    counter.completed(5)
    assert not fail(counter, 6)
    counter.completed(4)
    counter.completed(5)
    assert fail(counter, 7)


def test_failures_up_to_the_last_success_are_ignored() -> None:
    counter = FailureCounter(0)
    counter.completed(5)
    assert not fail(counter, 4)
    assert not fail(counter, 5)
    assert fail(counter, 6)


def test_failing_the_job_starts_a_new_run_in_which_old_ids_count_again() -> None:
    counter = FailureCounter(1)
    assert [fail(counter, checkpoint_id) for checkpoint_id in (1, 2, 2, 1)] == [False, True, False, True]


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("reason", COUNTED)
def test_savepoints_that_fail_in_the_coordinator_never_count(reason: FailureReason, synchronous: bool) -> None:
    assert not fail(FailureCounter(0), 1, reason, savepoint=True, synchronous=synchronous, from_task=False)


@pytest.mark.parametrize("synchronous", [True, False])
def test_a_preflight_reason_is_the_coordinators_even_if_a_task_reports_it(synchronous: bool) -> None:
    counter = FailureCounter(0)
    assert not fail(counter, 1, FailureReason.IO_EXCEPTION, savepoint=True, synchronous=synchronous)


def test_a_plain_savepoint_that_fails_in_a_task_counts() -> None:
    counter = FailureCounter(1)
    assert not fail(counter, 1, savepoint=True)
    assert fail(counter, 2, savepoint=True)


@pytest.mark.parametrize("tolerable", [0, 5, None])
@pytest.mark.parametrize("reason", [reason for reason in FailureReason if not reason.is_preflight])
def test_a_synchronous_savepoint_that_fails_in_a_task_always_fails_the_job(
    reason: FailureReason, tolerable: int | None
) -> None:
    counter = FailureCounter(tolerable)
    counter.completed(3)
    assert fail(counter, 3, reason, savepoint=True, synchronous=True)


def test_a_failed_synchronous_savepoint_leaves_the_run_of_failures_as_it_is() -> None:
    counter = FailureCounter(1)
    assert not fail(counter, 1)
    assert fail(counter, 2, savepoint=True, synchronous=True)
    assert fail(counter, 3)


def test_a_synchronous_snapshot_is_a_savepoint_even_if_it_is_not_called_one() -> None:
    counter = FailureCounter(0)
    assert not fail(counter, 1, FailureReason.CHECKPOINT_EXPIRED, synchronous=True, from_task=False)
    assert fail(counter, 1, synchronous=True)


def test_unlimited_tolerance_never_fails_the_job() -> None:
    counter = FailureCounter(None)
    assert not any(fail(counter, checkpoint_id) for checkpoint_id in range(1, 1000))


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tolerable is -1"):
        FailureCounter(-1)
