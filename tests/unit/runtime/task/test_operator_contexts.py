"""What operators get when they are opened."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.runtime.task.task_kit import SCHEMA, Output, Passing, TaskBench, output_edge, rows

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import ConfigurationError
from snapline.graph.execution_plan import Key, PlannedOperator
from snapline.runtime.task.operator_contexts import OperatorContexts
from snapline.runtime.task.task_meter import TaskMeter
from snapline.runtime.task.task_outputs import TaskOutputs

HEAD = PlannedOperator("op0", "head", Key(("x",), pa.int64()), SCHEMA)
TAIL = PlannedOperator("op1", "tail", None, SCHEMA)


class Setup(TaskBench):
    def __init__(self) -> None:
        super().__init__([Passing([]), Passing([])])
        self.side = Output()
        self.passed: list[tuple[int, Operator | None]] = []
        self.emitted: list[pa.RecordBatch] = []
        self.events: list[tuple[str, object, bool]] = []
        outputs = TaskOutputs([output_edge([self.side], output="late")], TaskMeter(lambda: 0.0))
        self.contexts = OperatorContexts(
            self.plan,
            self.environment,
            self.task.mailbox,
            ["op0", "op1"],
            outputs,
            lambda watermark, behind: self.passed.append((watermark, behind)),
            self.send_event,
        )

    def send_event(self, operator: str, event: object, *, is_repeated: bool) -> None:
        self.events.append((operator, event, is_repeated))

    def context(self, planned: PlannedOperator, member: Operator) -> OperatorContext:
        return self.contexts.make_context(planned, member, self.contexts.make_states(planned), self.emitted.append)

    def read_mail(self) -> None:
        while due := self.task.mailbox.take_mail():
            for mail in due:
                mail()


def test_each_operator_knows_where_it_is() -> None:
    setup = Setup()
    context = setup.context(HEAD, Passing([]))
    assert (context.job_id, context.uid, context.subtask, context.parallelism) == ("job", "op0", 0, 2)
    assert (context.attempt, context.max_parallelism, context.key_columns) == (3, 128, ("x",))
    assert setup.context(TAIL, Passing([])).key_columns == ()


def test_only_keyed_operators_have_keyed_state_and_only_of_their_key_groups() -> None:
    setup = Setup()
    assert setup.contexts.make_states(TAIL).keyed is None
    keyed = setup.contexts.make_states(HEAD).keyed
    assert keyed is not None
    assert (keyed.key_groups.start, keyed.key_groups.end) == (0, 63)


def test_only_the_last_operator_has_side_outputs() -> None:
    setup = Setup()
    setup.context(HEAD, Passing([])).emit_to("late", rows(1))
    assert setup.side.sent() == []
    setup.context(TAIL, Passing([])).emit_to("late", rows(2))
    assert setup.side.sent() == [[2]]


def test_a_watermark_goes_on_behind_the_operator_that_made_it() -> None:
    setup, member = Setup(), Passing([])
    setup.context(HEAD, member).emit_watermark(7)
    assert setup.passed == [(7, member)]


def test_the_answer_of_a_background_call_comes_by_mail() -> None:
    setup = Setup()
    answers: list[Any] = []
    context = setup.context(HEAD, Passing([]))

    def fail() -> None:
        raise ValueError("no")

    def done(over: Future[Any]) -> None:
        answers.append(over.exception() or over.result())

    context.background(lambda: 7, done)
    context.background(fail, done)
    setup.run()
    assert answers == [], "not on the thread of the call"
    setup.read_mail()
    assert answers[0] == 7
    assert isinstance(answers[1], ValueError)


def test_a_call_that_was_put_off_comes_at_its_time() -> None:
    setup = Setup()
    calls: list[int] = []
    context = setup.context(HEAD, Passing([]))
    begun_ms = context.clock()
    context.call_later(50, lambda: calls.append(context.clock() - begun_ms))
    setup.advance(49)
    setup.read_mail()
    assert calls == []
    setup.advance(1)
    setup.read_mail()
    assert calls == [50]


def test_events_go_to_the_coordinator_of_the_operator_that_has_one() -> None:
    setup = Setup()
    setup.context(replace(TAIL, has_coordinator=True), Passing([])).send_event("x")
    assert setup.events == [("op1", "x", False)]
    with pytest.raises(ConfigurationError, match="this operator has no coordinator"):
        setup.context(TAIL, Passing([])).send_event("x")
