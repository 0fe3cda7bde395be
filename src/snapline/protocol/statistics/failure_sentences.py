"""Why checkpoints fail, in plain words, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

from snapline.types import FailureReason

_R = FailureReason
_CHECK_STORAGE = "check that the checkpoint storage can be reached and written to, and is not full"
_NOTHING_TO_DO = ""

WORDS: Mapping[FailureReason, str] = {
    _R.PERIODIC_SCHEDULER_SHUTDOWN: "periodic checkpoints were switched off",
    _R.TOO_MANY_CHECKPOINT_REQUESTS: "too many checkpoints were requested at once",
    _R.MINIMUM_TIME_BETWEEN_CHECKPOINTS: "it came too soon after the one before",
    _R.NOT_ALL_REQUIRED_TASKS_RUNNING: "not all tasks were running",
    _R.IO_EXCEPTION: "the checkpoint storage did not work",
    _R.BLOCKING_OUTPUT_EXIST: "an output of the job cannot take part in checkpoints",
    _R.CHECKPOINT_ASYNC_EXCEPTION: "a subtask could not write its state",
    _R.CHECKPOINT_DECLINED: "a subtask declined it",
    _R.CHECKPOINT_DECLINED_TASK_NOT_READY: "a subtask was not ready yet",
    _R.CHECKPOINT_DECLINED_TASK_CLOSING: "a subtask was about to end",
    _R.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER: "a subtask upstream gave it up",
    _R.CHECKPOINT_DECLINED_SUBSUMED: "the barrier of a newer one came first",
    _R.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM: "the input of a subtask ended meanwhile",
    _R.CHECKPOINT_EXPIRED: "it was not complete in time",
    _R.CHECKPOINT_SUBSUMED: "a newer one was complete first",
    _R.CHECKPOINT_COORDINATOR_SUSPEND: "the job stopped running, to restart or to end",
    _R.CHECKPOINT_COORDINATOR_SHUTDOWN: "the job ended",
    _R.CHANNEL_STATE_SHARED_STREAM_EXCEPTION: "the rows in flight could not be written",
    _R.JOB_FAILOVER_REGION: "a part of the job restarted",
    _R.TASK_FAILURE: "a task failed",
    _R.TASK_CHECKPOINT_FAILURE: "a subtask could not take part",
    _R.UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE: "a subtask could not be told of it",
    _R.TRIGGER_CHECKPOINT_FAILURE: "the driver could not start it",
    _R.FINALIZE_CHECKPOINT_FAILURE: "the driver could not complete it",
}

_ADVICE: Mapping[FailureReason, str] = {
    _R.IO_EXCEPTION: _CHECK_STORAGE,
    _R.CHECKPOINT_ASYNC_EXCEPTION: _CHECK_STORAGE,
    _R.CHANNEL_STATE_SHARED_STREAM_EXCEPTION: _CHECK_STORAGE,
    _R.FINALIZE_CHECKPOINT_FAILURE: _CHECK_STORAGE,
    _R.CHECKPOINT_EXPIRED: "raise `timeout`, or set unaligned=True if barriers wait behind data",
    _R.TRIGGER_CHECKPOINT_FAILURE: "mend the hook or source that the message names",
    _R.TOO_MANY_CHECKPOINT_REQUESTS: "request fewer at once, or raise `max_queued_requests`",
    _R.CHECKPOINT_DECLINED_TASK_CLOSING: "nothing, unless it goes on: then look for the subtasks that have ended",
}
_OTHER_ADVICE = "look at the message, and at the log of the subtask that it names"


def advice_on(reason: FailureReason) -> str:
    """What to do about it; empty if nothing went wrong."""
    return _ADVICE.get(reason, _NOTHING_TO_DO if reason.is_routine else _OTHER_ADVICE)
