"""The shell of a coordinator: what it orders is carried out in order, and answers come back to it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.runtime.master.master_kit import CHECKPOINTS, READ, MasterBench, Splits, make_spec, request, running

from snapline.config import Checkpoints
from snapline.contracts.master_hook import MasterHook
from snapline.devtools.simulator.sim_storage import SimStorage
from snapline.errors import PeerError
from snapline.protocol.messages import OperatorEvent, OperatorEventReceived, TriggerCheckpoint
from snapline.runtime.wire import control_messages as m
from snapline.types import JobStatus, SnapshotKind


class Hook(MasterHook):
    """Takes part in checkpoints as the test wants."""

    name = "hook"

    def __init__(self) -> None:
        self.log: list[str] = []
        self.error: Exception | None = None

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        self.log.append(f"snapshot {checkpoint_id}")
        if self.error is not None:
            raise self.error
        return b"kept"

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        self.log.append(f"restore {checkpoint_id} {state!r}")

    def reset(self) -> None:
        self.log.append("reset")


def hooked() -> tuple[MasterBench, Hook]:
    hook = Hook()
    bench = MasterBench(make_spec(checkpoints=CHECKPOINTS, hooks={"hook": hook}))
    bench.begin()
    return bench, hook


def test_a_hook_takes_part_before_tasks_are_triggered_and_gets_its_state_back() -> None:
    bench, hook = hooked()
    answer = bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)
    assert hook.log == ["reset", f"snapshot {trigger.barrier.id}"]
    bench.acknowledge(trigger.barrier.id)
    assert answer.done()
    bench.slots.closed(bench.worker, "gone")
    bench.settle(1500)
    assert hook.log[-1] == f"restore {trigger.barrier.id} b'kept'"


def test_a_hook_that_fails_fails_the_checkpoint_and_not_the_job() -> None:
    bench, hook = hooked()
    hook.error = ValueError("no luck")
    answer = bench.request()
    assert bench.told(TriggerCheckpoint) == []
    assert "no luck" in str(answer.exception(0))
    assert bench.status() is JobStatus.RUNNING


def test_metadata_that_cannot_be_written_fails_the_checkpoint_and_not_the_job() -> None:
    bench = MasterBench()
    bench.begin()
    answer = bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)
    bench.sim_storage._fails = lambda metadata, share: metadata  # type: ignore[method-assign]
    bench.acknowledge(trigger.barrier.id)
    bench.settle(60_000) if not answer.done() else None
    assert answer.exception(0) is not None


def test_without_storage_tasks_send_their_objects_along() -> None:
    bench = MasterBench(make_spec(checkpoints=Checkpoints()))
    bench.begin()
    bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)
    assert trigger.barrier.location is None


def test_a_barrier_waits_for_splits_that_are_on_their_way() -> None:
    bench = MasterBench()
    bench.begin()
    bench.say(request(running(READ), "read"))
    (event,) = bench.told(OperatorEvent)
    bench.request()
    assert bench.told(TriggerCheckpoint) == []
    bench.say(OperatorEventReceived(7, event.sequence))
    assert bench.told(TriggerCheckpoint) == [], "another attempt's"
    bench.say(OperatorEventReceived(1, event.sequence))
    assert len(bench.told(TriggerCheckpoint)) == 1


def test_splits_that_cannot_be_sent_fail_the_attempt() -> None:
    bench = MasterBench()
    bench.begin()
    bench.slots._processes.clear()
    bench.master.process_said(0, request(running(READ), "read"))
    bench.settle(50)
    assert bench.status() is not JobStatus.RUNNING


def test_only_the_vertex_of_a_source_may_ask_for_its_splits() -> None:
    bench = MasterBench()
    bench.begin()
    with pytest.raises(PeerError, match="'nobody'"):
        bench.master.process_said(0, request(running(READ), "nobody"))


def test_an_old_checkpoint_is_deleted_once_a_newer_one_is_complete() -> None:
    bench = MasterBench()
    bench.begin()
    locations = []
    for name in ("one", "two"):
        answer = bench.request(name)
        (trigger,) = bench.told(TriggerCheckpoint)
        bench.acknowledge(trigger.barrier.id)
        locations.append(answer.result(0))
        bench.settle(1000)
    kept = _stored(bench.sim_storage)
    assert any(path.startswith(f"{locations[1]}/") for path in kept)
    assert not any(path.startswith(f"{locations[0]}/") for path in kept)


def _stored(storage: SimStorage) -> list[Any]:
    return list(storage.objects)


class Watched(Splits):
    """A source in which `new` splits appear."""

    is_bounded = False
    in_step = False
    discovery_interval_ms = 3_600_000

    def __init__(self) -> None:
        self.new: list[str] = []

    def splits(self, parallelism: int) -> Sequence[Any]:
        return ()

    def discover(self, known: Any) -> tuple[Sequence[Any], Any]:
        found, self.new = self.new, []
        return found, known


def watched() -> tuple[MasterBench, Watched]:
    source = Watched()
    bench = MasterBench(replace(make_spec(checkpoints=CHECKPOINTS), sources={"read": source}))
    bench.begin()
    return bench, source


def drain(bench: MasterBench) -> Future[str]:
    return bench.request("stop", kind=SnapshotKind.SYNC_SAVEPOINT, drain=True, target="memory://sim/savepoints")


def test_draining_reads_all_splits_that_are_there_before_the_savepoint() -> None:
    bench, source = watched()
    bench.say(request(running(READ), "read"))
    (nothing,) = bench.told(OperatorEvent)
    bench.say(OperatorEventReceived(1, nothing.sequence))
    source.new = ["a", "b"]
    answer = drain(bench)
    for name in ("a", "b"):
        (event,) = bench.told(OperatorEvent)
        assert event.event == {"splits": [name], "more": True}
        bench.say(OperatorEventReceived(1, event.sequence))
        assert bench.told(TriggerCheckpoint) == [], "it is being read"
        bench.say(request(running(READ), "read"))
    (nothing,) = bench.told(OperatorEvent)
    bench.say(OperatorEventReceived(1, nothing.sequence))
    (trigger,) = bench.told(TriggerCheckpoint)
    assert trigger.barrier.drain
    assert not answer.done()


def test_a_job_that_fails_while_it_is_drained_was_not_stopped() -> None:
    bench, source = watched()
    source.new = ["a"]
    answer = drain(bench)
    bench.slots.closed(bench.worker, "gone")
    bench.settle(1500)
    assert "before it had read everything" in str(answer.exception(0))


HOUR_MS = 3_600_000


def ticking() -> MasterBench:
    checkpoints = Checkpoints(interval="10s", storage="memory://sim/checkpoints")
    bench = MasterBench(make_spec(checkpoints=checkpoints))
    bench.begin()
    return bench


def take_checkpoints(bench: MasterBench, duration_ms: int) -> int:
    """Let time pass, in which tasks acknowledge every checkpoint. Returns how many were triggered."""
    count, end_ms = 0, bench.kernel.now_ms + duration_ms
    while bench.kernel.now_ms < end_ms:
        bench.settle(500)
        for trigger in bench.told(TriggerCheckpoint):
            count += 1
            bench.acknowledge(trigger.barrier.id)
    return count


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
def test_checkpoints_keep_their_rate_when_the_wall_clock_is_set(step_ms: int) -> None:
    bench = ticking()
    assert 3 <= take_checkpoints(bench, 40_000) <= 5
    bench.kernel.wall_ahead_ms += step_ms
    assert 9 <= take_checkpoints(bench, 100_000) <= 11
    statistics = bench.master.statistics
    assert statistics.counts.failed == 0
    assert statistics.latest.completed is not None
    assert abs(statistics.latest.completed.trigger_ms - bench.scheduler.wall_ms()) < 60_000


def test_a_tick_that_was_missed_is_not_made_up_for() -> None:
    bench = ticking()
    take_checkpoints(bench, 25_000)
    bench.process.frozen_until_ms = bench.kernel.now_ms + 300_000
    bench.settle(300_000)
    assert take_checkpoints(bench, 50_000) <= 6


def test_a_deleted_journal_fails_the_job_for_good_and_nothing_is_written() -> None:
    bench = ticking()
    assert take_checkpoints(bench, 25_000) >= 1
    bench.sim_storage.records["job"].clear()
    bench.sim_storage.objects.clear()
    bench.settle(11_000)
    bench.say(m.TasksCancelled(1))
    assert bench.ends == [JobStatus.FAILED]
    assert bench.master.failure.failure is not None
    assert "was deleted while it ran" in bench.master.failure.failure.cause
    assert (bench.sim_storage.records["job"], bench.sim_storage.objects) == ({}, {})


def test_a_restart_after_its_journal_was_deleted_does_not_begin_anew() -> None:
    bench = MasterBench()
    bench.begin()
    bench.sim_storage.records["job"].clear()
    bench.slots.closed(bench.worker, "gone")
    bench.settle(3_000)
    assert bench.ends == [JobStatus.FAILED]
    assert bench.sim_storage.records["job"] == {}


def test_a_deletion_that_hangs_is_named(caplog: pytest.LogCaptureFixture) -> None:
    bench = ticking()
    bench.storage.archive.delete_snapshot = lambda *_: bench.kernel.pause()  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        take_checkpoints(bench, 60_000)
    assert "job job: deleting snapshot 1 has not returned after 10 s" in caplog.text
