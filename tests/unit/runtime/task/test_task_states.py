"""The empty state of an operator, in the backend the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline.config import Execution
from snapline.graph.execution_plan import Key, PlannedOperator
from snapline.runtime.task.task_states import make_states
from snapline.state.memory_backend import MemoryBackend
from snapline.state.subtask_states import SubtaskStates

KEYED = PlannedOperator("op", "op", Key(("x",), pa.int64()), None)
PLAIN = PlannedOperator("op", "op", None, None)


def nowhere() -> Path:
    raise AssertionError("nothing is kept on disk")


def made(planned: PlannedOperator, *, subtask: int = 0, backend: str = "memory", **options: Any) -> SubtaskStates:
    values: dict[str, Any] = {"directory": nowhere, **options}
    return make_states(
        planned,
        subtask=subtask,
        parallelism=3,
        max_parallelism=10,
        execution=Execution(state_backend=backend),
        clock=lambda: 0,
        **values,
    )


def test_an_operator_without_a_key_has_operator_state_only() -> None:
    states = made(PLAIN)
    assert states.keyed is None
    assert states.operator.list_state("x", bytes).get() == []


def test_the_key_groups_of_all_subtasks_are_those_of_the_operator_each_once() -> None:
    groups: list[int] = []
    for subtask in range(3):
        keyed = made(KEYED, subtask=subtask).keyed
        assert isinstance(keyed, MemoryBackend)
        groups += range(keyed.key_groups.start, keyed.key_groups.end + 1)
    assert groups == list(range(10))


def test_a_directory_is_made_only_for_a_backend_that_needs_one(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    asked: list[Path] = []

    def directory() -> Path:
        asked.append(tmp_path / "state")
        return asked[-1]

    made(KEYED, directory=directory)
    assert asked == []
    states = made(KEYED, backend="rocksdb", directory=directory)
    assert asked == [tmp_path / "state"]
    states.close()
