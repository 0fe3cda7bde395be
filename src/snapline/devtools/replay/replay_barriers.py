"""Replays the input events of one subtask against a barrier handler."""

from __future__ import annotations

import re
from typing import Any

from snapline.devtools.replay.script_fields import Fields, NotUnderstoodError, integer, shown, text
from snapline.devtools.replay.unaligned_handler import UnalignedHandler
from snapline.errors import SnaplineError
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.barrier_events import (
    AlignmentTimerFired,
    BarrierAnnounced,
    BarrierEffect,
    BarrierEvent,
    BarrierHandler,
    BarrierReceived,
    CancelAlignmentTimer,
    CancelMarkerReceived,
    CheckpointTriggered,
    HandlerAborted,
    HandlerMode,
    OpenChannels,
    PartitionEnded,
    SetAlignmentTimer,
)
from snapline.protocol.barriers.tracker import TrackingHandler
from snapline.types import Barrier, BarrierKind

MAX_CHANNELS = 32768
"""More input channels than this are refused."""

_OWN_KIND = {
    "aligned": BarrierKind.ALIGNED,
    "unaligned": BarrierKind.UNALIGNED,
    "alternating": BarrierKind.ALIGNED_WITH_TIMEOUT,
    "tracker": BarrierKind.ALIGNED,
}
_HANDLERS = {name: name for name in _OWN_KIND}
_SUFFIXES = {"A": BarrierKind.ALIGNED, "T": BarrierKind.ALIGNED_WITH_TIMEOUT, "U": BarrierKind.UNALIGNED}

_NUMBER = "([0-9]{1,15})"
_DATA = re.compile(f"d@{_NUMBER}")
_BARRIER = re.compile(f"B{_NUMBER}@{_NUMBER}([ATU]?)")
_CANCEL = re.compile(f"X{_NUMBER}@{_NUMBER}")
_END = re.compile(f"E@{_NUMBER}")
_ANNOUNCEMENT = re.compile(f"A{_NUMBER}@{_NUMBER}")
_CLOCK = re.compile(f"t([=~]){_NUMBER}")
_GRAMMAR = "d@c, Bn@c with an optional suffix A, T or U, Xn@c, E@c, An@c, t=ms, t~ms or timers"


def replay_barriers(script: dict[str, Any]) -> dict[str, Any]:
    """What the handler does at each event, and which checkpoints are still pending at the end."""
    fields = Fields(script)
    bench = _Bench(
        fields.choice("handler", _HANDLERS),
        fields.integer("channels", minimum=1, maximum=MAX_CHANNELS),
        after_tasks_finish=fields.flag("finish", True),
        timeout_ms=fields.integer("timeout_ms", 100),
        created_ms=_created(fields),
    )
    events = [(where, text(event, where)) for where, event in fields.array("events")]
    fields.done()
    steps = []
    for where, event in events:
        try:
            steps.append(bench.step(event))
        except SnaplineError as error:
            raise NotUnderstoodError(f"{where} is {shown(event)}: {error.args[0]}") from error
    return {"steps": steps, "pending": bench.pending}


def _handler(name: str, channels: int, *, after_tasks_finish: bool) -> BarrierHandler:
    match name:
        case "tracker":
            return TrackingHandler(channels, after_tasks_finish=after_tasks_finish)
        case "unaligned":
            return UnalignedHandler(channels, after_tasks_finish=after_tasks_finish)
    return AligningHandler(HandlerMode(name), channels, after_tasks_finish=after_tasks_finish)


def _created(fields: Fields) -> dict[int, int]:
    times = fields.value("created", {})
    where = fields.where("created")
    if not isinstance(times, dict):
        raise NotUnderstoodError(f"{where} is {shown(times)}; use an object of times in ms by checkpoint id")
    created: dict[int, int] = {}
    for key, time_ms in times.items():
        if not re.fullmatch(_NUMBER, key):
            raise NotUnderstoodError(f'{where} has the key {shown(key)}; use checkpoint ids, such as "1"')
        created[int(key)] = integer(time_ms, f"{where}.{key}")
    return created


class _Bench:
    """A handler with the clock, the timer and the open inputs that a subtask's shell keeps for it."""

    def __init__(
        self,
        handler: str,
        channels: int,
        *,
        after_tasks_finish: bool,
        timeout_ms: int,
        created_ms: dict[int, int],
    ) -> None:
        self._own_kind = _OWN_KIND[handler]
        self._is_tracker = handler == "tracker"
        self._handler = _handler(handler, channels, after_tasks_finish=after_tasks_finish)
        self._inputs = OpenChannels(channels)
        self._timeout_ms = timeout_ms
        self._created_ms = created_ms
        self._now_ms = 0
        self._timer: SetAlignmentTimer | None = None
        self._effects: list[BarrierEffect] = []

    @property
    def pending(self) -> int | list[int] | None:
        pending = list(self._handler.pending)
        if self._is_tracker:
            return pending
        return pending[0] if pending else None

    def step(self, event: str) -> dict[str, Any]:
        """Carry out one event and describe its effects."""
        self._effects = []
        captured = self._play(event)
        return {
            "event": event,
            "triggered": [
                {"id": effect.barrier.id, "unaligned": self._is_unaligned(effect.barrier)}
                for effect in self._effects
                if isinstance(effect, CheckpointTriggered)
            ],
            "aborted": [
                {"id": effect.checkpoint_id, "reason": effect.reason.name}
                for effect in self._effects
                if isinstance(effect, HandlerAborted)
            ],
            "blocked": sorted(self._handler.blocked),
            "captured": captured,
        }

    def _play(self, event: str) -> list[int]:
        """Carry out one event. Returns the channel of a captured data buffer, if there is one."""
        if match := _DATA.fullmatch(event):
            channel = int(match[1])
            self._inputs.check(channel)
            return [channel] if self._handler.is_capturing(channel) else []
        if match := _BARRIER.fullmatch(event):
            kind = _SUFFIXES.get(match[3], self._own_kind)
            self._tell(BarrierReceived(int(match[2]), self._barrier(int(match[1]), kind)))
        elif match := _CANCEL.fullmatch(event):
            self._note_mention(int(match[1]))
            self._tell(CancelMarkerReceived(int(match[2]), int(match[1])))
        elif match := _END.fullmatch(event):
            self._tell(PartitionEnded(int(match[1])))
            self._inputs.close(int(match[1]))
        elif match := _ANNOUNCEMENT.fullmatch(event):
            barrier = self._barrier(int(match[1]), BarrierKind.ALIGNED_WITH_TIMEOUT)
            self._tell(BarrierAnnounced(int(match[2]), barrier))
        elif match := _CLOCK.fullmatch(event):
            self._move_clock(int(match[2]))
            if match[1] == "=":
                self._fire_due_timer()
        elif event == "timers":
            self._fire_due_timer()
        else:
            raise NotUnderstoodError(f"no such event; use {_GRAMMAR}")
        return []

    def _tell(self, event: BarrierEvent) -> None:
        effects = self._handler.handle(event, self._now_ms)
        self._effects += effects
        for effect in effects:
            if isinstance(effect, SetAlignmentTimer):
                self._timer = effect
            elif isinstance(effect, CancelAlignmentTimer):
                self._timer = None

    def _barrier(self, checkpoint_id: int, kind: BarrierKind) -> Barrier:
        created_ms = self._note_mention(checkpoint_id)
        timeout_ms = self._timeout_ms if kind is BarrierKind.ALIGNED_WITH_TIMEOUT else None
        return Barrier(checkpoint_id, created_ms, kind, timeout_ms)

    def _note_mention(self, checkpoint_id: int) -> int:
        return self._created_ms.setdefault(checkpoint_id, self._now_ms)

    def _move_clock(self, to_ms: int) -> None:
        if to_ms < self._now_ms:
            raise NotUnderstoodError(f"the clock is at {self._now_ms} ms and cannot go back; use that or later")
        self._now_ms = to_ms

    def _fire_due_timer(self) -> None:
        if self._timer is not None and self._timer.at_ms <= self._now_ms:
            due, self._timer = self._timer, None
            self._tell(AlignmentTimerFired(due.checkpoint_id))

    def _is_unaligned(self, barrier: Barrier) -> bool:
        return barrier.is_unaligned and not self._is_tracker
