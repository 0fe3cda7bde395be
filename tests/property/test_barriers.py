"""Properties of the barrier handlers over random streams that a real input gate could deliver.

A gate delivers nothing from a blocked or ended channel, and checkpoint ids ascend on each channel. The handlers are
compared with models that look at the whole history, id by id, instead of keeping a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapline.devtools.replay.unaligned_handler import UnalignedHandler
from snapline.errors import EngineError
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.barrier_events import (
    AlignmentTimerFired,
    BarrierAnnounced,
    BarrierEffect,
    BarrierEvent,
    BarrierHandler,
    BarrierReceived,
    BlockChannel,
    CancelAlignmentTimer,
    CancelMarkerReceived,
    CheckpointTriggered,
    FinishAlignment,
    HandlerAborted,
    HandlerMode,
    PartitionEnded,
    PrioritizeBarrier,
    ResumeChannel,
    SetAlignmentTimer,
    StartCapture,
)
from snapline.protocol.barriers.tracker import MAX_TRACKED, TrackingHandler
from snapline.types import NO_CHECKPOINT, AbortReason, Barrier, BarrierKind

A, T, U = BarrierKind.ALIGNED, BarrierKind.ALIGNED_WITH_TIMEOUT, BarrierKind.UNALIGNED
TIMEOUT_MS = 10

# --- streams ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    """A wish of the outside world. `pick` chooses among the channels that may deliver, `jump` how far ids go on."""

    action: str
    pick: int
    jump: int


def streams(actions: str, max_size: int = 40) -> st.SearchStrategy[list[Move]]:
    move = st.builds(Move, st.sampled_from(actions), st.integers(0, 11), st.sampled_from((1, 1, 1, 1, 2, 3)))
    return st.lists(move, max_size=max_size)


channel_counts = st.integers(1, 4)
plain_streams = streams("dddBBBBBBBXE")
busy_streams = streams("ddBBBBBBBBXEAAAtT", max_size=60)


@dataclass(frozen=True)
class Seen:
    """One thing a gate delivered: d data, B barrier, A announcement, X cancel marker, E end."""

    what: str
    channel: int
    checkpoint_id: int = NO_CHECKPOINT


class Gate:
    """Turns moves into what a gate with these channels could deliver, given which of them are blocked."""

    def __init__(self, channels: int) -> None:
        self.last = [NO_CHECKPOINT + 1] * channels
        self.open = set(range(channels))
        self.announced: dict[int, int] = {}

    def deliver(self, move: Move, blocked: frozenset[int]) -> Seen | None:
        ready = sorted(self.open - blocked)
        if not ready:
            return None
        channel = ready[move.pick % len(ready)]
        what = move.action
        # Behind an announcement only data and then the announced barrier can come.
        if channel in self.announced and what in "XEA":
            what = "B"
        match what:
            case "d":
                return Seen("d", channel)
            case "E":
                self.open.discard(channel)
                return Seen("E", channel)
            case "A":
                self.announced[channel] = self.last[channel] + move.jump
                return Seen("A", channel, self.announced[channel])
        self.last[channel] = self.announced.pop(channel, self.last[channel] + move.jump)
        return Seen(what, channel, self.last[channel])


def as_event(seen: Seen, kind: BarrierKind, created_ms: int = 0) -> BarrierEvent:
    barrier = Barrier(seen.checkpoint_id, created_ms, kind, TIMEOUT_MS if kind is T else None)
    match seen.what:
        case "B":
            return BarrierReceived(seen.channel, barrier)
        case "A":
            return BarrierAnnounced(seen.channel, barrier)
        case "X":
            return CancelMarkerReceived(seen.channel, seen.checkpoint_id)
        case _:
            return PartitionEnded(seen.channel)


def deliveries(handler: BarrierHandler, channels: int, moves: Sequence[Move]) -> Iterator[Seen]:
    """What a gate delivers, one by one; the handler must have handled each before the next is asked for."""
    gate = Gate(channels)
    for move in moves:
        seen = gate.deliver(move, handler.blocked)
        if seen is not None:
            yield seen


@dataclass(frozen=True)
class Setting:
    """A handler and the kind of all barriers that reach it."""

    mode: HandlerMode
    kind: BarrierKind = A

    def handler(self, channels: int, finish: bool = True) -> BarrierHandler:
        if self.mode is HandlerMode.TRACKER:
            return TrackingHandler(channels, after_tasks_finish=finish)
        return AligningHandler(self.mode, channels, after_tasks_finish=finish)


ALIGNED, TRACKER = Setting(HandlerMode.ALIGNED), Setting(HandlerMode.TRACKER)
ALTERNATING, UNALIGNED = Setting(HandlerMode.ALTERNATING), Setting(HandlerMode.ALTERNATING, U)
SETTINGS = {"aligned": ALIGNED, "unaligned": UNALIGNED, "alternating": ALTERNATING, "tracker": TRACKER}
every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)


# --- a shell that distrusts its handler ------------------------------------------------------------------------------


@dataclass
class Shell:
    """Carries out effects and complains about any that make no sense."""

    handler: BarrierHandler
    channels: int
    blocked: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    delivered: dict[int, set[int]] = field(default_factory=dict)
    announced: dict[int, int] = field(default_factory=dict)
    triggered: dict[int, bool] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    capturing_for: int | None = None
    timer: SetAlignmentTimer | None = None

    def handle(self, event: BarrierEvent, now_ms: int = 0) -> list[BarrierEffect]:
        match event:
            case BarrierReceived(channel, barrier):
                assert channel not in self.blocked
                self.delivered.setdefault(barrier.id, set()).add(channel)
                self.announced.pop(channel, None)
            case BarrierAnnounced(channel, barrier):
                self.announced[channel] = barrier.id
            case PartitionEnded(channel):
                self.ended.add(channel)
            case AlignmentTimerFired():
                self.timer = None
        effects = self.handler.handle(event, now_ms)
        for effect in effects:
            self._carry_out(effect)
        self._check()
        return effects

    def _carry_out(self, effect: BarrierEffect) -> None:
        match effect:
            case BlockChannel(channel):
                assert channel not in self.blocked
                assert channel not in self.ended
                self.blocked.add(channel)
            case ResumeChannel(channel):
                self.blocked.discard(channel)
            case PrioritizeBarrier(channel, checkpoint_id):
                assert self.announced[channel] == checkpoint_id
            case StartCapture(checkpoint_id):
                assert self.capturing_for is None
                self.capturing_for = checkpoint_id
            case CheckpointTriggered(barrier, _):
                self._trigger(barrier)
            case FinishAlignment(checkpoint_id, metrics):
                assert checkpoint_id == max(self.triggered)
                assert checkpoint_id not in self.finished | self.aborted
                assert min(metrics.start_delay_ms, metrics.duration_ms) >= 0
                self.finished.add(checkpoint_id)
                self.capturing_for = None
            case HandlerAborted(checkpoint_id, _):
                assert checkpoint_id not in self.finished | self.aborted
                self.aborted.add(checkpoint_id)
                self.capturing_for = None
            case SetAlignmentTimer():
                assert self.timer is None
                self.timer = effect
            case CancelAlignmentTimer(checkpoint_id):
                assert self.timer is not None
                assert self.timer.checkpoint_id == checkpoint_id
                self.timer = None

    def _trigger(self, barrier: Barrier) -> None:
        assert barrier.id not in self.triggered
        assert barrier.id not in self.aborted
        assert barrier.id > max(self.triggered, default=NO_CHECKPOINT)
        self.triggered[barrier.id] = barrier.is_unaligned
        if barrier.is_unaligned and isinstance(self.handler, AligningHandler):
            assert self.capturing_for == barrier.id
            assert self.delivered[barrier.id]
        else:
            assert self.capturing_for is None
            assert self.delivered[barrier.id] | self.ended == set(range(self.channels))

    def _check(self) -> None:
        assert self.handler.blocked == self.blocked
        assert not self.blocked & self.ended
        open_channels = set(range(self.channels)) - self.ended
        capturing = {channel for channel in open_channels if self.handler.is_capturing(channel)}
        if self.capturing_for is None:
            assert capturing == set()
        else:
            assert capturing == open_channels - self.delivered[self.capturing_for]
            assert self.handler.pending == (self.capturing_for,)
        if not self.handler.pending:
            assert self.blocked == set()
            assert self.timer is None


@every_setting
@given(channels=channel_counts, moves=plain_streams, finish=st.booleans())
def test_every_order_makes_sense(setting: Setting, channels: int, moves: list[Move], finish: bool) -> None:
    shell = Shell(setting.handler(channels, finish), channels)
    for seen in deliveries(shell.handler, channels, moves):
        if seen.what == "d":
            if setting is not UNALIGNED:
                assert not shell.handler.is_capturing(seen.channel)
            continue
        shell.handle(as_event(seen, setting.kind))
        if setting is UNALIGNED:
            assert shell.blocked == set()
        if setting is TRACKER:
            assert shell.handler.blocked == frozenset()
    assert set(shell.triggered.values()) <= {setting is UNALIGNED}


@given(channels=channel_counts, moves=busy_streams, finish=st.booleans())
def test_every_order_makes_sense_with_timeouts_announcements_and_mixed_kinds(
    channels: int, moves: list[Move], finish: bool
) -> None:
    shell = Shell(ALTERNATING.handler(channels, finish), channels)
    gate = Gate(channels)
    now_ms = 0
    created_ms: dict[int, int] = {}
    for move in moves:
        if move.action in "tT":
            now_ms += move.pick
            if move.action == "T" and shell.timer is not None and shell.timer.at_ms <= now_ms:
                shell.handle(AlignmentTimerFired(shell.timer.checkpoint_id), now_ms)
            continue
        seen = gate.deliver(move, shell.handler.blocked)
        if seen is None or seen.what == "d":
            continue
        is_savepoint = seen.checkpoint_id % 4 == 0
        if is_savepoint and seen.what == "A":
            continue
        kind = A if is_savepoint else U if seen.what == "B" and move.pick % 4 == 3 else T
        event = as_event(seen, kind, created_ms.setdefault(seen.checkpoint_id, now_ms))
        effects = shell.handle(event, now_ms)
        if is_savepoint and seen.what == "B":
            assert not any(isinstance(effect, SetAlignmentTimer | StartCapture) for effect in effects)


@every_setting
@given(channels=channel_counts, moves=plain_streams, finish=st.booleans())
def test_a_fresh_checkpoint_always_completes(setting: Setting, channels: int, moves: list[Move], finish: bool) -> None:
    shell = Shell(setting.handler(channels, finish), channels)
    for seen in deliveries(shell.handler, channels, moves):
        if seen.what != "d":
            shell.handle(as_event(seen, setting.kind))
    missing = set(range(channels)) - shell.ended
    fresh = Barrier(1000, 0, setting.kind)
    for _ in range(len(missing)):
        shell.handle(BarrierReceived(min(missing - shell.blocked), fresh))
        missing -= shell.delivered[fresh.id]
    if len(shell.ended) < channels:
        assert fresh.id in shell.finished
        assert shell.handler.pending == ()


# --- handlers that must agree ----------------------------------------------------------------------------------------


def assert_same(
    leader: BarrierHandler, follower: BarrierHandler, channels: int, moves: list[Move], kind: BarrierKind
) -> None:
    for seen in deliveries(leader, channels, moves):
        if seen.what != "d":
            event = as_event(seen, kind)
            effects = follower.handle(event, 0)
            assert leader.handle(event, 0) == [
                effect for effect in effects if not isinstance(effect, SetAlignmentTimer | CancelAlignmentTimer)
            ]
        assert leader.blocked == follower.blocked
        assert leader.pending == follower.pending
        assert [leader.is_capturing(c) for c in range(channels)] == [follower.is_capturing(c) for c in range(channels)]


@given(channels=channel_counts, moves=plain_streams, finish=st.booleans(), kind=st.sampled_from((A, T)))
def test_without_timeouts_alternating_is_aligned(
    channels: int, moves: list[Move], finish: bool, kind: BarrierKind
) -> None:
    leader, follower = ALIGNED.handler(channels, finish), ALTERNATING.handler(channels, finish)
    assert_same(leader, follower, channels, moves, kind)


@given(channels=channel_counts, moves=plain_streams, finish=st.booleans())
def test_with_unaligned_barriers_alternating_never_aligns(channels: int, moves: list[Move], finish: bool) -> None:
    leader = UnalignedHandler(channels, after_tasks_finish=finish)
    follower = ALTERNATING.handler(channels, finish)
    assert_same(leader, follower, channels, moves, U)


@every_setting
@given(channels=channel_counts, moves=plain_streams, finish=st.booleans(), nonsense_id=st.integers(0, 9))
def test_illegal_events_change_nothing(
    setting: Setting, channels: int, moves: list[Move], finish: bool, nonsense_id: int
) -> None:
    calm, disturbed = setting.handler(channels, finish), setting.handler(channels, finish)
    ended: set[int] = set()
    for seen in deliveries(calm, channels, moves):
        for channel in {-1, channels} | ended:
            for nonsense in (
                BarrierReceived(channel, Barrier(nonsense_id, 0)),
                BarrierAnnounced(channel, Barrier(nonsense_id, 0)),
                CancelMarkerReceived(channel, nonsense_id),
                PartitionEnded(channel),
            ):
                with pytest.raises(EngineError):
                    disturbed.handle(nonsense, 0)
        if seen.what == "E":
            ended.add(seen.channel)
        if seen.what != "d":
            event = as_event(seen, setting.kind)
            assert disturbed.handle(event, 0) == calm.handle(event, 0)
        assert (disturbed.blocked, disturbed.pending) == (calm.blocked, calm.pending)


# --- models ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Life:
    """The fate of one id, derived from the whole history. Times are positions in the history.

    `missing[i]` are the channels not yet heard after the i-th event since `opened`. `end` is None if it never ended,
    `reason` is None if it completed, and `silent` if its end was not reported.
    """

    opened: int
    cancelled_unopened: bool
    missing: tuple[frozenset[int], ...]
    end: int | None
    reason: AbortReason | None
    silent: bool = False


def life_of(checkpoint_id: int, history: Sequence[Seen], channels: int, finish: bool) -> Life | None:
    """The rules read aloud for one id; None if it was never newer than all before it when it was first seen."""
    opened = next(time for time, seen in enumerate(history) if seen.checkpoint_id == checkpoint_id)
    if any(seen.checkpoint_id > checkpoint_id for seen in history[:opened]):
        return None
    if history[opened].what == "X":
        return Life(opened, True, (), opened, AbortReason.CANCELLED)
    heard = {seen.channel for seen in history[:opened] if seen.what == "E"}
    missing: list[frozenset[int]] = []
    for time, seen in enumerate(history[opened:], start=opened):
        if seen.checkpoint_id > checkpoint_id:
            return Life(opened, False, tuple(missing), time, AbortReason.SUBSUMED, silent=seen.what == "X")
        if seen.what == "X" and seen.checkpoint_id == checkpoint_id:
            return Life(opened, False, tuple(missing), time, AbortReason.CANCELLED)
        if seen.what == "E" and not finish:
            return Life(opened, False, tuple(missing), time, AbortReason.END_OF_STREAM)
        if seen.what == "E" or seen.checkpoint_id == checkpoint_id:
            heard.add(seen.channel)
        missing.append(frozenset(range(channels)) - heard)
        if not missing[-1]:
            return Life(opened, False, tuple(missing), time, None)
    return Life(opened, False, tuple(missing), None, None)


def outcomes_of(effects: Sequence[BarrierEffect]) -> list[tuple[int, AbortReason | None]]:
    """Ids in the order reported, with a reason if aborted and None if triggered."""
    found: list[tuple[int, AbortReason | None]] = []
    for effect in effects:
        if isinstance(effect, CheckpointTriggered):
            found.append((effect.barrier.id, None))
        elif isinstance(effect, HandlerAborted):
            found.append((effect.checkpoint_id, effect.reason))
    return found


@dataclass
class Record:
    """What a handler did, event by event."""

    history: list[Seen] = field(default_factory=list)
    outcomes: list[list[tuple[int, AbortReason | None]]] = field(default_factory=list)
    capturing: list[frozenset[int]] = field(default_factory=list)


def record(handler: BarrierHandler, channels: int, moves: list[Move], kind: BarrierKind) -> Record:
    recorded = Record()
    for seen in deliveries(handler, channels, moves):
        recorded.history.append(seen)
        recorded.outcomes.append([] if seen.what == "d" else outcomes_of(handler.handle(as_event(seen, kind), 0)))
        recorded.capturing.append(frozenset(c for c in range(channels) if handler.is_capturing(c)))
    return recorded


def lives_of(history: Sequence[Seen], channels: int, finish: bool) -> dict[int, Life]:
    ids = sorted({seen.checkpoint_id for seen in history} - {NO_CHECKPOINT})
    lives = {checkpoint_id: life_of(checkpoint_id, history, channels, finish) for checkpoint_id in ids}
    return {checkpoint_id: life for checkpoint_id, life in lives.items() if life is not None}


@pytest.mark.parametrize("setting", [ALIGNED, UNALIGNED], ids=["aligned", "unaligned"])
@given(channels=channel_counts, moves=streams("dddBBBBBBBXE", max_size=60), finish=st.booleans())
def test_one_checkpoint_at_a_time_is_what_the_rules_say(
    setting: Setting, channels: int, moves: list[Move], finish: bool
) -> None:
    handler = setting.handler(channels, finish)
    recorded = record(handler, channels, moves, setting.kind)
    lives = lives_of(recorded.history, channels, finish)
    expected: list[list[tuple[int, AbortReason | None]]] = [[] for _ in recorded.history]
    capturing = [frozenset[int]() for _ in recorded.history]
    for checkpoint_id, life in lives.items():
        if setting is UNALIGNED and not life.cancelled_unopened:
            expected[life.opened].append((checkpoint_id, None))
            ended_before = {seen.channel for seen in recorded.history[: life.opened] if seen.what == "E"}
            for time, missing in enumerate(life.missing, start=life.opened):
                capturing[time] = missing - ended_before
        if life.end is None or life.silent:
            continue
        if life.reason is not None or setting is ALIGNED:
            expected[life.end].append((checkpoint_id, life.reason))
    assert recorded.outcomes == expected
    for time, channels_capturing in enumerate(recorded.capturing):
        ended = {seen.channel for seen in recorded.history[: time + 1] if seen.what == "E"}
        assert channels_capturing - ended == capturing[time] - ended
    assert handler.pending == tuple(checkpoint_id for checkpoint_id, life in lives.items() if life.end is None)


def tracker_model(
    history: Sequence[Seen], channels: int, finish: bool
) -> tuple[list[list[tuple[int, AbortReason | None]]], list[int]]:
    """The tracker's rules over the sets of channels each kept id still waits for, and what is pending at the end."""
    waits_for: dict[int, set[int]] = {}
    cancelled: set[int] = set()
    seen_ids = {NO_CHECKPOINT}
    open_channels = set(range(channels))
    result: list[list[tuple[int, AbortReason | None]]] = []
    for seen in history:
        said: list[tuple[int, AbortReason | None]] = []
        named = seen.checkpoint_id
        if seen.what == "E":
            open_channels.remove(seen.channel)
        if seen.what == "E" and not finish:
            said += [(kept, AbortReason.END_OF_STREAM) for kept in sorted(waits_for) if kept not in cancelled]
            waits_for.clear()
        if seen.what == "X":
            older = [kept for kept in sorted(waits_for) if kept < named]
            aborted = [*older, named] if named in waits_for or named > max(seen_ids) else older
            said += [(each, AbortReason.CANCELLED) for each in aborted if each not in cancelled]
            cancelled.update(aborted)
            for each in older:
                del waits_for[each]
        if named > max(seen_ids):
            waits_for[named] = set(open_channels)
        for kept, missing in waits_for.items():
            if seen.what == "E" or kept == named:
                missing.discard(seen.channel)
        complete = [kept for kept, missing in waits_for.items() if not missing]
        if complete:
            newest = max(complete)
            if newest not in cancelled:
                said.append((newest, None))
            waits_for = {kept: missing for kept, missing in waits_for.items() if kept > newest}
        seen_ids.add(named)
        result.append(said)
    return result, [kept for kept in sorted(waits_for) if kept not in cancelled]


@given(channels=channel_counts, moves=streams("BBBBBBBBBBXXE", max_size=MAX_TRACKED), finish=st.booleans())
def test_the_tracker_is_what_the_rules_say(channels: int, moves: list[Move], finish: bool) -> None:
    handler = TRACKER.handler(channels, finish)
    recorded = record(handler, channels, moves, A)
    expected, pending = tracker_model(recorded.history, channels, finish)
    assert recorded.outcomes == expected
    assert list(handler.pending) == pending
    assert recorded.capturing == [frozenset()] * len(recorded.history)
