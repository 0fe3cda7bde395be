"""Which requested checkpoint starts next, and which requests fail."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from snapline.config import Checkpoints
from snapline.errors import ConfigurationError
from snapline.types import CheckpointScope, FailureReason, SavepointFormat, SnapshotKind


@dataclass(frozen=True, slots=True)
class TriggerRequest:
    """A request for a snapshot. Its `name` is unique, so that the answer finds the caller."""

    name: str
    kind: SnapshotKind
    forced: bool
    periodic: bool
    timestamp_ms: int
    target: str | None = None
    format: SavepointFormat | None = None
    drain: bool = False
    scope: CheckpointScope = CheckpointScope.CONFIGURED
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one step.

    `chosen` has left the queue and starts now. `failed` requests have left it for good. `retry_in_ms` is set when a
    periodic request came too early: the periodic timer must fire again after that time.
    """

    chosen: TriggerRequest | None = None
    failed: tuple[tuple[TriggerRequest, FailureReason], ...] = ()
    retry_in_ms: int | None = None


class Load(TypedDict):
    """What a decision depends on besides the queue.

    `triggering`: a chosen request is not pending yet. `pending` and `cleaning`: checkpoints in progress, and old ones
    being deleted. `last_completed_ms`: when a snapshot last completed, by the clock of `now_ms`, or None.
    """

    triggering: bool
    pending: int
    cleaning: int
    now_ms: int
    last_completed_ms: int | None


def is_forced(kind: SnapshotKind, *, unaligned: bool) -> bool:
    """Whether a request of this kind is forced, given whether unaligned checkpoints are enabled."""
    return kind.is_savepoint and not unaligned


_NOT_STARTED = (
    FailureReason.TOO_MANY_CHECKPOINT_REQUESTS,
    FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS,
    FailureReason.CHECKPOINT_COORDINATOR_SUSPEND,
    FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN,
)


def was_dropped(request: TriggerRequest, reason: FailureReason) -> bool:
    """Whether a periodic request was dropped before its turn: then no checkpoint has failed."""
    return request.periodic and reason in _NOT_STARTED


class RequestDecider:
    """A bounded priority queue of requests, from which each step takes at most one.

    Savepoints go before checkpoints, forced before others, users' before periodic, older before newer. Offer every
    request; poll whenever a trigger has ended, a pending checkpoint has gone or a cleanup has finished.
    """

    def __init__(self, max_queued: int, max_concurrent: int, min_pause_ms: int) -> None:
        if max_queued < 1:
            raise ConfigurationError(f"max_queued is {max_queued}; at least 1 request must fit into the queue")
        if max_concurrent < 1:
            raise ConfigurationError(f"max_concurrent is {max_concurrent}; allow at least 1 checkpoint at a time")
        if min_pause_ms < 0:
            raise ConfigurationError(f"min_pause_ms is {min_pause_ms}; use 0 for no pause")
        self._max_queued = max_queued
        self._max_concurrent = max_concurrent
        self._min_pause_ms = min_pause_ms
        self._queue: list[TriggerRequest] = []

    @property
    def queued(self) -> tuple[TriggerRequest, ...]:
        """The waiting requests, in the order in which they would be chosen."""
        return tuple(self._queue)

    def offer(self, request: TriggerRequest, **load: Unpack[Load]) -> Decision:
        """Queue `request`, then choose as `poll` does.

        A full queue drops its last periodic request, possibly the new one. Without any, the new request fails and
        nothing is chosen: users keep their places.
        """
        if len(self._queue) >= self._max_queued and not self._queue[-1].periodic:
            return Decision(failed=((request, FailureReason.TOO_MANY_CHECKPOINT_REQUESTS),))
        # Equal requests go in behind those already there, which is the order of arrival.
        insort(self._queue, request, key=_rank)
        evicted: tuple[tuple[TriggerRequest, FailureReason], ...] = ()
        if len(self._queue) > self._max_queued:
            evicted = ((self._queue.pop(), FailureReason.TOO_MANY_CHECKPOINT_REQUESTS),)
        decision = self.poll(**load)
        return replace(decision, failed=evicted + decision.failed)

    def poll(self, **load: Unpack[Load]) -> Decision:
        """Choose the first request if it may start now; no other is considered in its place."""
        # Too many deletions hold back even forced requests: storage must not fall behind without bound.
        if load["triggering"] or not self._queue or load["cleaning"] > self._max_concurrent:
            return Decision()
        first = self._queue[0]
        if load["pending"] >= self._max_concurrent and not first.forced:
            return Decision()
        del self._queue[0]
        last_completed_ms = load["last_completed_ms"]
        if first.periodic and not first.forced and last_completed_ms is not None:
            too_early_ms = last_completed_ms + self._min_pause_ms - load["now_ms"]
            if too_early_ms > 0:
                failed = ((first, FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS),)
                return Decision(failed=failed, retry_in_ms=too_early_ms)
        return Decision(chosen=first)

    def take(self, name: str) -> TriggerRequest | None:
        """Take a waiting request out of the queue. Returns None if it does not wait."""
        found = next((request for request in self._queue if request.name == name), None)
        if found is not None:
            self._queue.remove(found)
        return found

    def drop_all(self) -> tuple[TriggerRequest, ...]:
        """Empties the queue and returns its requests; the caller fails them."""
        dropped = self.queued
        self._queue.clear()
        return dropped


def _rank(request: TriggerRequest) -> tuple[bool, bool, bool, int]:
    return (not request.kind.is_savepoint, not request.forced, request.periodic, request.timestamp_ms)


def savepoint_request(
    name: str,
    config: Checkpoints,
    now_ms: int,
    *,
    target: str | None = None,
    stop: bool = False,
    drain: bool = False,
) -> TriggerRequest:
    """A user's request for a savepoint, or to stop with one. Forced exactly when unaligned checkpoints are off.

    Raises `ConfigurationError` if neither the call nor the settings name a directory.
    """
    kind = SnapshotKind.SYNC_SAVEPOINT if stop else SnapshotKind.SAVEPOINT
    forced = is_forced(kind, unaligned=config.unaligned)
    target = target if target is not None else config.savepoint_dir
    if target is None:
        raise ConfigurationError("a savepoint needs a directory: name one in the call, or set savepoint_dir")
    return TriggerRequest(name, kind, forced, False, now_ms, target, config.savepoint_format, drain)
