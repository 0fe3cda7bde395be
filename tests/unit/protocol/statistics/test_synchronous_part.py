"""Long synchronous parts, at the last subtask or at one that let others wait."""

from __future__ import annotations

from tests.unit.protocol.statistics.view_kit import answer, plan_of, record_of, task_of, tasks_of

from snapline.protocol.statistics.explanation import SlowCause
from snapline.protocol.statistics.synchronous_part import explain_synchronous, late_sender
from snapline.types import SubtaskId

PLAN = plan_of({"stamp": 2, "sink": 1}, ("stamp", "sink"))
SINK = SubtaskId("sink", 0)


def test_the_subtask_that_stood_still_is_named_with_its_operators() -> None:
    record = record_of({"stamp": [answer(20, sync_ms=4), answer(2200, sync_ms=2100)]}, completed_ms=2300)
    said = explain_synchronous(record, PLAN, SubtaskId("stamp", 1))
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.LONG_SYNCHRONOUS_PART, "stamp", 1)
    assert said.sentence == (
        "subtask 1 of `stamp` processed nothing for 2.1 s while it took its snapshot (the synchronous part)"
    )
    assert "prepare_snapshot" in said.advice
    assert "`stamp`" in said.advice


def test_much_more_state_than_siblings_is_skew() -> None:
    parts = [answer(20, sync_ms=40, state_bytes=1_000_000), answer(2200, sync_ms=2100, state_bytes=90_000_000)]
    said = explain_synchronous(record_of({"stamp": parts}, completed_ms=2300), PLAN, SubtaskId("stamp", 1))
    assert (said.cause, said.subtask) == (SlowCause.SKEW, 1)
    assert "it has 90.0 MB of state, its siblings 1.0 MB (median)" in said.sentence


def test_one_that_sent_its_barrier_late_is_found() -> None:
    record = record_of(
        {
            "stamp": [answer(20, start_delay_ms=3), answer(2100, start_delay_ms=3, sync_ms=2050)],
            "sink": [answer(2150, start_delay_ms=10, alignment_ms=2080)],
        },
        completed_ms=2200,
    )
    assert late_sender(record, PLAN, tasks_of(task_of("sink")), SINK) == ("stamp", 1)
    assert late_sender(record, PLAN, tasks_of(task_of("sink", busy=0.9)), SINK) is None, "its rows held it up"


def test_a_barrier_that_was_sent_in_time_has_no_late_sender() -> None:
    record = record_of(
        {"stamp": [answer(20), answer(300, sync_ms=200)], "sink": [answer(2150, start_delay_ms=2100)]},
        completed_ms=2200,
    )
    assert late_sender(record, PLAN, {}, SINK) is None
