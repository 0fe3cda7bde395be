"""The operators of one subtask: whose fault an error is."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from snapline.contracts.operator import Operator
from snapline.runtime.task.operator_chain import OperatorChain
from snapline.state.operator_state import OperatorStates
from snapline.state.subtask_states import SubtaskStates
from snapline.types import Barrier, SavepointFormat

ROWS = pa.record_batch({"x": [1]})


class Passing(Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)


class Failing(Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        raise ValueError(f"{batch.num_rows} rows on {input_index}")


def test_an_error_is_that_of_the_operator_that_raised_it_not_of_those_that_called_it() -> None:
    operators: list[Any] = [Passing(), Passing(), Failing()]
    planned: list[Any] = [SimpleNamespace(uid=uid) for uid in ("head", "middle", "tail")]
    chain = OperatorChain(planned, operators)
    for operator, following in pairwise(operators):
        operator.context = SimpleNamespace(emit=lambda batch, following=following: following.process(batch, 0))
    with pytest.raises(ValueError, match="1 rows on 0") as caught:
        chain.process(ROWS, 0)
    assert chain.described(caught.value) == (
        "ValueError: 1 rows on 0 (in the operator 'tail'), in a batch of 1 row that begins with {'x': 1}"
    )
    assert chain.described(ValueError("of nobody")) == "ValueError: of nobody"


def test_late_and_bad_rows_of_all_operators_are_added_up() -> None:
    operators: list[Any] = [Passing(), Passing(), Failing()]
    planned: list[Any] = [SimpleNamespace(uid=uid) for uid in ("head", "middle", "tail")]
    chain = OperatorChain(planned, operators)
    assert chain.figures == (0, 0, "", "", None)
    operators[0].late_rows, operators[1].bad_rows, operators[1].last_bad_row = 3, 4, "too large"
    operators[0].bad_rows = 1
    assert chain.figures == (3, 5, "too large", "", None)


class Flushing(Operator):
    """Takes 3 s to prepare a snapshot, and 2 s to take it."""

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Has no rows."""

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self.clock[0] += 3.0

    def snapshot(self, checkpoint_id: int) -> None:
        self.clock[0] += 2.0


def test_preparing_a_snapshot_is_part_of_its_synchronous_time() -> None:
    clock = [0.0]
    planned: list[Any] = [SimpleNamespace(uid="sink")]
    chain = OperatorChain(planned, [Flushing(clock)], lambda: clock[0])
    chain._states["sink"] = SubtaskStates(OperatorStates("sink", 0))
    chain.prepare_snapshot(4)
    clock[0] += 60.0  # nothing that belongs to it
    assert chain.snapshot(Barrier(4, 0), SavepointFormat.NATIVE, ended=False)[1] == 5000
    assert chain.snapshot(Barrier(5, 0), SavepointFormat.NATIVE, ended=False)[1] == 2000, "it was not prepared"
