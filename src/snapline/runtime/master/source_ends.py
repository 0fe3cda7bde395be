"""Requests the last checkpoint of a bounded job once all its sources have ended."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence

from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.job.last_checkpoint import (
    LastCheckpoint,
    LastCheckpointEffect,
    RequestLastCheckpoint,
    SetLastCheckpointTimer,
)
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler
from snapline.types import SnapshotKind, SubtaskId


class SourceEnds:
    """The shell of `LastCheckpoint`; `request` takes the request for the checkpoint. Used on the loop only."""

    def __init__(
        self, *, is_wanted: bool, scheduler: Scheduler, effects: EffectQueue, request: Callable[[TriggerRequest], None]
    ) -> None:
        self._machine = LastCheckpoint(is_wanted=is_wanted)
        self._scheduler = scheduler
        self._effects = effects
        self._request = request
        self._numbers = itertools.count()
        self._timer: Cancellable | None = None

    def prepared(self, sources: Iterable[SubtaskId], again: Collection[SubtaskId] | None = None) -> None:
        """An attempt is about to run these source subtasks. With `again` only these restart, the others go on."""
        self._machine.prepared(sources, again)

    def running(self) -> None:
        self._add(self._machine.running())

    def source_ended(self, subtask: SubtaskId) -> None:
        self._add(self._machine.source_ended(subtask))

    def checkpoint_completed(self) -> None:
        self._add(self._machine.completed())

    def checkpoint_failed(self) -> None:
        """The last checkpoint failed."""
        self._add(self._machine.failed())

    def left(self) -> None:
        """The job has left the running state."""
        self._machine.left()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _add(self, effects: Sequence[LastCheckpointEffect]) -> None:
        self._effects.add(self._carry_out, effects)

    def _carry_out(self, effect: LastCheckpointEffect) -> None:
        match effect:
            case RequestLastCheckpoint():
                name, now_ms = f"last-{next(self._numbers)}", self._scheduler.now_ms()
                self._request(
                    TriggerRequest(
                        name,
                        SnapshotKind.CHECKPOINT,
                        forced=False,
                        periodic=False,
                        timestamp_ms=now_ms,
                        is_last=True,
                    )
                )
            case SetLastCheckpointTimer(delay_ms):
                self.close()
                self._timer = self._scheduler.call_later(delay_ms / 1000, self._time_is_up)

    def _time_is_up(self) -> None:
        self._add(self._machine.time_is_up())
