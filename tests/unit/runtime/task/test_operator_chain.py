"""The operators of one subtask: whose fault an error is."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from snapline.contracts.operator import Operator
from snapline.runtime.task.operator_chain import OperatorChain

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
    assert chain.row_figures == (0, 0, "")
    operators[0].late_rows, operators[1].bad_rows, operators[1].last_bad_row = 3, 4, "too large"
    operators[0].bad_rows = 1
    assert chain.row_figures == (3, 5, "too large")
