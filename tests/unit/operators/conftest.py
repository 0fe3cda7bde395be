"""One operator by itself: a context made by hand, and what the operator emits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest

from snapline.api.operator import Operator, OperatorContext
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.memory import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.snapshots import SubtaskStates


class Harness:
    """Runs an operator the way a task does. Background work runs at once, or waits in `waiting` if it is `slow`."""

    def __init__(self, operator: Operator, **options: Any) -> None:
        self.operator: Any = operator
        self.emitted: list[pa.RecordBatch] = []
        self.waiting: list[tuple[Callable[[], Any], Callable[[Future[Any]], None]]] = []
        self.side_emitted: list[tuple[str, pa.RecordBatch]] = []
        self.watermarks: list[int] = []
        self.mail: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.now_ms = 1_000_000
        self.is_slow = options.pop("slow", False)
        self.states = options.pop("states", None) or self._states(options.pop("key", None))
        values: dict[str, Any] = {
            "job_id": "job",
            "uid": "it",
            "subtask": 0,
            "parallelism": 1,
            "max_parallelism": 128,
            "attempt": 1,
            "key_columns": (),
            "restored_id": -1,
            "prepared_until": -1,
            "committer_retries": 2,
            "takes_last_checkpoint": True,
        }
        self.context = OperatorContext(
            states=self.states,
            clock=lambda: self.now_ms,
            emit=self.emitted.append,
            emit_to=lambda output, batch: self.side_emitted.append((output, batch)),
            emit_watermark=self.watermarks.append,
            background=self._background,
            post=self.mail.put,
            **{**values, **options},
        )

    def _states(self, key: object) -> SubtaskStates:
        keyed = None
        if key is not None:
            keyed = MemoryBackend(
                key, max_parallelism=128, key_groups=KeyGroupRange(0, 127), clock=lambda: self.now_ms, uid="it"
            )
        return SubtaskStates(OperatorStates("it", 0), keyed)

    def _background(self, call: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        self.waiting.append((call, done))
        if not self.is_slow:
            self.run_one()

    def run_one(self) -> None:
        """Do the oldest piece of background work."""
        call, done = self.waiting.pop(0)
        future: Future[Any] = Future()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        done(future)

    def read_mail(self) -> None:
        """Wait for a call that was posted, and make it."""
        self.mail.get(timeout=10)()

    def open(self) -> Any:
        self.operator.open(self.context)
        return self.operator

    def elements(self, name: str) -> list[bytes]:
        """What is in an operator list state."""
        return self.states.operator.list_state(name, bytes).get()

    def rows(self) -> list[dict[str, Any]]:
        """All rows that were emitted since the last call."""
        rows = [row for batch in self.emitted for row in batch.to_pylist()]
        self.emitted.clear()
        return rows


@pytest.fixture
def run() -> Iterator[Callable[..., Harness]]:
    """Makes a harness; every operator is closed in the end."""
    made: list[Harness] = []

    def make(operator: Operator, **options: Any) -> Harness:
        made.append(Harness(operator, **options))
        return made[-1]

    yield make
    for harness in made:
        harness.operator.close()
