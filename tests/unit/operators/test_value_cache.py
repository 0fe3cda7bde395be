"""Value states cached for a batch behave like the states themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators import value_cache
from snapline.operators.process_functions import FunctionInput, FunctionOutputs, Process

OUT = pa.schema([("user", pa.string()), ("n", pa.int64())])
Run = Callable[..., Any]


def rows(*items: tuple[str, int]) -> pa.RecordBatch:
    times = pa.array([time for _, time in items], pa.int64())
    return pa.record_batch({"user": [user for user, _ in items], "time": times})


def started(run: Run, function: sl.ProcessFunction) -> Any:
    inputs = [FunctionInput(("user",), "time")]
    operator = Process(function, inputs, FunctionOutputs(OUT, {}), has_uid=True, has_event_time=True)
    harness = run(operator, key="string", key_columns=("user",))
    harness.open()
    return harness


def pairs(harness: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in harness.rows()]


class Values(sl.ProcessFunction):
    """Uses its states as the time of each row says."""

    def open(self, context: sl.ProcessContext) -> None:
        self.state = context.value_state("state", int, default=0)
        self.text = context.value_state("text", str)
        assert context.value_state("state", int, default=0) is self.state
        with pytest.raises(ConfigurationError, match="was declared with the default 0, and now with 5"):
            context.value_state("state", int, default=5)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        value, number = row["time"], self.state.get()
        if value == 0:
            self.state.clear()
        elif value == 1:
            self.state.set(2.0)
        elif value == 2:
            self.state.put([row["user"]], [number + 100])
        elif value == 3:
            assert self.state.take([row["user"]]).to_pylist() == [number or None]
        elif value == 4:
            self.state.delete([row["user"]])
        elif value == 5:
            self.state.update([row["user"]], lambda old, groups: pc.add(old, 1))
        elif value == 6:
            self.text.set((self.text.get() or "") + "x")
        else:
            self.state.set(number + value)
        shown = self.state.get()
        assert type(shown) is int
        context.emit({"user": self.text.get() or row["user"], "n": shown})


@pytest.mark.parametrize("least_rows", [1, 1000])
def test_values_are_the_same_whether_or_not_they_are_kept_for_a_batch(
    run: Run, monkeypatch: pytest.MonkeyPatch, least_rows: int
) -> None:
    monkeypatch.setattr(value_cache, "_LEAST_ROWS", least_rows)
    harness = started(run, Values())
    steps = [
        ("a", 10),
        ("b", 20),
        ("a", 2),
        ("a", 3),
        ("a", 5),
        ("b", 1),
        ("b", 3),
        ("a", 0),
        ("b", 4),
        ("a", 6),
        ("a", 7),
    ]
    harness.operator.process(rows(*steps), 0)
    harness.operator.process(rows(("a", 3), ("b", 3), ("a", 6)), 0)
    numbers = [10, 20, 110, 110, 111, 2, 2, 0, 0, 0, 7]
    assert [number for _, number in pairs(harness)] == [*numbers, 7, 0, 7]
    assert harness.operator._function.text.take(["a", "b"]).to_pylist() == ["xx", None]


@pytest.mark.parametrize("least_rows", [1, 1000])
def test_values_that_do_not_fit_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch, least_rows: int) -> None:
    monkeypatch.setattr(value_cache, "_LEAST_ROWS", least_rows)
    for value in (1.5, "x", 2**63):

        class Sets(sl.ProcessFunction):
            def open(self, context: sl.ProcessContext) -> None:
                self.state = context.value_state("state", int)

            def process(self, row: dict[str, Any], context: sl.ProcessContext, value: Any = value) -> None:
                self.state.set(value)

        with pytest.raises(UserCodeError, match=r"process 'it': .*is no value of type int64"):
            started(run, Sets()).operator.process(rows(("a", 0)), 0)
