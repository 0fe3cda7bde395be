"""The last checkpoint of a bounded job is requested when its sources have ended, and again until one completes."""

from __future__ import annotations

from tests.unit.runtime.runtime_bench import Bench

from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.runtime.master.source_ends import SourceEnds
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.types import SubtaskId

ONE, TWO = SubtaskId("read", 0), SubtaskId("read", 1)


class Setup(Bench):
    def __init__(self, *, is_wanted: bool = True) -> None:
        super().__init__()
        self.requests: list[TriggerRequest] = []
        self.ends = SourceEnds(
            is_wanted=is_wanted, scheduler=self.scheduler, effects=EffectQueue(), request=self.requests.append
        )
        self.ends.prepared([ONE, TWO])
        self.ends.running()


def test_the_last_source_to_end_asks_for_a_checkpoint() -> None:
    setup = Setup()
    setup.ends.source_ended(ONE)
    assert setup.requests == []
    setup.ends.source_ended(TWO)
    (request,) = setup.requests
    assert (request.is_last, request.periodic, request.forced) == (True, False, False)


def test_a_job_that_needs_none_asks_for_none() -> None:
    setup = Setup(is_wanted=False)
    setup.ends.source_ended(ONE)
    setup.ends.source_ended(TWO)
    assert setup.requests == []


def test_one_that_failed_is_asked_for_again_under_another_name() -> None:
    setup = Setup()
    setup.ends.source_ended(ONE)
    setup.ends.source_ended(TWO)
    setup.ends.checkpoint_failed()
    setup.advance(10_000)
    assert len({request.name for request in setup.requests}) == 2


def test_after_a_completed_one_another_follows_for_those_that_saw_the_end_late() -> None:
    setup = Setup()
    setup.ends.source_ended(ONE)
    setup.ends.source_ended(TWO)
    setup.ends.checkpoint_completed()
    setup.advance(10_000)
    assert len(setup.requests) == 2


def test_nothing_is_asked_for_once_the_job_has_left_the_running_state_or_is_closed() -> None:
    for leave in (SourceEnds.left, SourceEnds.close):
        setup = Setup()
        setup.ends.source_ended(ONE)
        setup.ends.source_ended(TWO)
        setup.ends.checkpoint_failed()
        leave(setup.ends)
        setup.advance(10_000)
        assert len(setup.requests) == 1
