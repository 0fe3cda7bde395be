"""Drives a stateful processor as a single operator, step by step."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tests.unit.operators.conftest import Harness

from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.spark.stateful.pandas_frames import make_format
from snapline.spark.stateful.processor_node import TIME_MODES
from snapline.spark.stateful.processor_operator import TransformWithState
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.types import MAX_WATERMARK, SnapshotKind, SubtaskId

INPUT = pa.schema(
    [
        ("user", pa.string()),
        ("word", pa.string()),
        ("n", pa.int64()),
        ("ms", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)
COUNTS = pa.schema([("user", pa.string()), ("n", pa.int64())])
PAIRS = pa.schema([("user", pa.string()), ("n", pa.int64()), ("m", pa.int64())])
WORDS = pa.schema([("user", pa.string()), ("word", pa.string()), ("n", pa.int64())])


def event(user: str, word: str = "", n: int | None = 0, ms: int = 0) -> dict[str, Any]:
    at = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    return {"user": user, "word": word, "n": n, "ms": ms, "ts": at}


def events(*words: str) -> list[dict[str, Any]]:
    """`ann:word:1@5000`: user, word, number and time, the last three optional."""
    made = []
    for text in words:
        text, _, ms = text.partition("@")
        user, word, n = (*text.split(":"), "", "")[:3]
        made.append(event(user, word, int(n) if n not in ("", "null") else (None if n else 0), int(ms or 0)))
    return made


Step = list[dict[str, Any]] | int
"""Rows of one batch, or the new processing time or watermark of Spark."""


@dataclass
class Case:
    """A processor and its steps."""

    processor: type[StatefulProcessor]
    schema: pa.Schema
    steps: list[Step]
    mode: str = "none"
    format: str = "rows"
    initial: dict[str, list[int]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    """More arguments of the operator."""


class Subject:
    """A processor as a single operator, which can be saved and restored."""

    def __init__(self, case: Case, processor: StatefulProcessor | None = None) -> None:
        self.case = case
        self.now_ms = 0
        self.restored = 0
        self._processor = processor
        self.harness = self._made()
        self.harness.open()

    def _made(self) -> Harness:
        case = self.case
        initial = [{"user": key, "n": n} for key, values in case.initial.items() for n in values]
        operator = TransformWithState(
            self._processor or case.processor(),
            case.schema,
            form=make_format(case.format),
            domain=TIME_MODES[case.mode.replace("_", "")],
            time_column="ts" if case.mode == "event_time" else None,
            initial_state=pa.Table.from_pylist(initial, schema=COUNTS) if initial else None,
            **case.options,
        )
        made = Harness(operator, key="string", key_columns=("user",))
        made.now_ms = self.now_ms
        return made

    def restore(self, processor: StatefulProcessor | None = None) -> None:
        """Save, discard everything, and restore."""
        self.restored += 1
        objects = MemoryObjects()
        before, number = self.harness, self.restored
        before.operator.snapshot(number)
        writer = SnapshotWriter(
            objects, f"/job/chk-{number}", "/job/shared", attempt=1, checkpoint_id=number, uid="it", subtask=0
        )
        written = before.states.snapshot(canonical=False).write(writer)
        before.operator.close()
        before.states.close()
        state = OperatorState("it", parallelism=1, max_parallelism=128, subtasks={0: written.state})
        snapshot = Snapshot(number, SnapshotKind.CHECKPOINT, 1, self.now_ms, f"/job/chk-{number}", {"it": state})
        self._processor = processor
        self.harness = self._made()
        states: SubtaskStates = self.harness.states
        plan = plan_restore(snapshot, [RestoreVertex("it", 1, ("it",))], [])
        states.restore(plan.subtasks[SubtaskId("it", 0)]["it"], SnapshotReader(objects))
        self.harness.open()

    def step(self, step: Step) -> list[dict[str, Any]]:
        operator = self.harness.operator
        if isinstance(step, int):
            self._time(step)
        else:
            operator.process(pa.RecordBatch.from_pylist(step, schema=INPUT), 0)
        return self.harness.rows()

    def barrier(self, *batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What is emitted for these rows ahead of a barrier."""
        for batch in batches:
            assert self.step(batch) == []
        self.harness.operator.prepare_snapshot(1)
        return self.harness.rows()

    def _time(self, time_ms: int) -> None:
        operator = self.harness.operator
        if self.case.mode == "event_time":
            # Rows up to a watermark of Spark are late; up to one of ours, they are all there.
            operator.watermark(time_ms if time_ms == MAX_WATERMARK else time_ms - 1)
            return
        self.now_ms = self.harness.now_ms = time_ms
        wakeup_ms = operator.next_wakeup_ms()
        if wakeup_ms is not None and wakeup_ms <= time_ms:
            operator.wakeup(time_ms)
