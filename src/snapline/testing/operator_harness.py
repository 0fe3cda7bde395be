"""One operator by itself: the test gives it rows, watermarks and time, and looks at what it emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Self

import cloudpickle
import pyarrow as pa

from snapline.api.graph_nodes import Input, Node
from snapline.api.stream import Stream
from snapline.config import Duration, duration_ms
from snapline.contracts.contexts import Time, in_milliseconds
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import conform, key_type
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.row_batches import batch_of, rows_of
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.stable_hash import check_no_nulls
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.testing.manual_clock import ManualClock
from snapline.types import MAX_WATERMARK, Partitioning, SnapshotKind, SubtaskId

_KEY_GROUPS = 128
_ANSWER_TIMEOUT_S = 10.0


class OperatorHarness:
    """Runs an operator the way a task does, in the thread of the test. Make one with `OperatorHarness.of(stream)`.

    No threads, no cluster and nothing random, so late rows, timers and restarts can be tested to the row:

        keyed = job.source(source, "clicks", watermarks=sl.Watermarks("time")).key_by("user")
        counts = keyed.window(sl.Tumbling("10s")).late_output("late").aggregate(uid="counts", n=sl.count())
        with OperatorHarness.of(counts) as harness:
            harness.process([{"user": "ann", "time": 1_000}])
            harness.watermark(10_000)
            assert [row["n"] for row in harness.rows()] == [1]
            harness.process([{"user": "ann", "time": 2_000}])
            assert harness.side_rows("late") == [{"user": "ann", "time": 2_000}]

    `clock` is its processing time, which moves only by `advance`. `emitted` and `side_emitted` are the batches it has
    emitted, `watermarks` the watermarks it made itself. Background work runs at once, or waits in `waiting` for
    `run_one` if the harness is `slow`. `key` is the type of the keys, if the input is keyed; `options` are fields of
    `OperatorContext`.
    """

    def __init__(
        self,
        operator: Operator,
        *,
        key: object = None,
        states: SubtaskStates | None = None,
        slow: bool = False,
        clock: ManualClock | None = None,
        **options: Any,
    ) -> None:
        self.operator: Any = operator
        self.emitted: list[pa.RecordBatch] = []
        self.side_emitted: list[tuple[str, pa.RecordBatch]] = []
        self.watermarks: list[int] = []
        self.events: list[Any] = []
        """What the operator has sent to its coordinator."""
        self.waiting: list[tuple[Callable[[], Any], Callable[[Future[Any]], None]]] = []
        self.mail: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.clock = ManualClock() if clock is None else clock
        self.is_slow = slow
        self._uid: str = options.get("uid", "it")
        self._key = key
        self._options = options
        self._inputs: tuple[Input, ...] = ()
        self._name = self._uid
        self._packed: bytes | None = None
        self._checkpoint_id = 0
        self.states = self._states() if states is None else states
        self.context = self._context()

    @classmethod
    def of(cls, stream: Stream, *, clock: ManualClock | None = None) -> Self:
        """A harness, already open, for the operator that emits this stream.

        Its job need not be complete, and its source need not exist. `clock` may be shared with other harnesses, and
        with functions that read it. `ConfigurationError` if `stream` is a source's, or the union of several streams.
        """
        node = _node(stream)
        made = cls(
            _unpacked(packed := cloudpickle.dumps(node.operator)),
            key=_key(node),
            key_columns=node.key_columns,
            uid=node.uid or node.name,
            clock=clock,
        )
        made._packed, made._inputs, made._name = packed, node.inputs, str(node)
        made.open()
        return made

    @property
    def now_ms(self) -> int:
        """Processing time. Setting it fires no timers; `advance` does."""
        return self.clock.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self.clock.now_ms = now_ms

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Any:
        """Open the operator and return it."""
        self.operator.open(self.context)
        return self.operator

    def close(self) -> None:
        """Close the operator and its state."""
        self.operator.close()
        self.states.close()

    # Input.

    def process(self, rows: Sequence[Mapping[str, Any]] | pa.RecordBatch | pa.Table, input_index: int = 0) -> None:
        """Process rows as one batch: dicts with all columns, or Arrow data. Waits for asynchronous calls to return."""
        item = self._input(input_index)
        for batch in _batches(rows, item.schema):
            if item.partitioning is Partitioning.HASH:
                names = item.key_columns
                check_no_nulls([batch.column(name) for name in names], names, self._name, batch)
            self.operator.process(batch, input_index)
            self._await_answers()

    def watermark(self, time: Time) -> None:
        """Declare that no older row will come. `time` is milliseconds since 1970, or a datetime."""
        self.operator.watermark(in_milliseconds(time))
        self._await_answers()

    def advance(self, duration: Duration) -> None:
        """Move the clock on and fire every timer that comes due, each at its time.

        `advance("0s")` fires what is due after a shared clock has moved.
        """
        until_ms = self.now_ms + duration_ms(duration, setting="advance")
        while (at_ms := self.operator.next_wakeup_ms()) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.operator.wakeup(self.now_ms)
        self.now_ms = until_ms

    def end(self) -> None:
        """End the input: all windows complete, and all event-time timers fire."""
        self.operator.watermark(MAX_WATERMARK)
        self._await_answers()
        self.operator.finish()

    def restart(self, stream: Stream | None = None) -> None:
        """Take a checkpoint, drop everything else and restore it into a new operator, as a job does after a failure.

        `stream` is the stream of a changed job to restore into. Rows already emitted stay readable.
        """
        if self._packed is None:
            raise ConfigurationError("restart: only a harness made by OperatorHarness.of(stream) can start again")
        self._checkpoint_id += 1
        number, objects, uid = self._checkpoint_id, MemoryObjects(), self._uid
        self.operator.prepare_snapshot(number)
        self.operator.snapshot(number)
        directory = f"/test/chk-{number}"
        target = SnapshotWriter(objects, directory, "/test/shared", attempt=1, checkpoint_id=number, uid=uid, subtask=0)
        written = self.states.snapshot().write(target)
        self.close()
        state = OperatorState(uid, parallelism=1, max_parallelism=_KEY_GROUPS, subtasks={0: written.state})
        snapshot = Snapshot(number, SnapshotKind.CHECKPOINT, 1, self.now_ms, directory, {uid: state})
        if stream is not None:
            node = _node(stream)
            self._packed, self._inputs = cloudpickle.dumps(node.operator), node.inputs
        self.operator = _unpacked(self._packed)
        self.states = self._states()
        plan = plan_restore(snapshot, [RestoreVertex(uid, 1, (uid,))], [])
        self.states.restore(plan.subtasks[SubtaskId(uid, 0)][uid], SnapshotReader(objects))
        self._options |= {"restored_id": number, "prepared_until": number, "attempt": number + 1}
        self.context = self._context()
        self.open()

    # Output.

    def rows(self) -> list[dict[str, Any]]:
        """All rows emitted since the last call."""
        rows = [row for batch in self.emitted for row in rows_of(batch)]
        self.emitted.clear()
        return rows

    def side_rows(self, name: str) -> list[dict[str, Any]]:
        """All rows emitted to this side output since the last call."""
        rows = [row for output, batch in self.side_emitted if output == name for row in rows_of(batch)]
        self.side_emitted = [(output, batch) for output, batch in self.side_emitted if output != name]
        return rows

    def elements(self, name: str) -> list[bytes]:
        """The elements of an operator list state."""
        return self.states.operator.list_state(name, bytes).get()

    # Background work and mail.

    def run_one(self) -> None:
        """Run the oldest piece of background work."""
        call, done = self.waiting.pop(0)
        future: Future[Any] = Future()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        done(future)

    def read_mail(self) -> None:
        """Wait for the next posted call and make it. `UserCodeError` if none comes."""
        try:
            call = self.mail.get(timeout=_ANSWER_TIMEOUT_S)
        except Empty:
            raise UserCodeError(f"{self._name}: no answer within {_ANSWER_TIMEOUT_S:g} s") from None
        call()

    def _await_answers(self) -> None:
        while self.operator.is_busy:
            self.read_mail()

    def _background(self, call: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        self.waiting.append((call, done))
        if not self.is_slow:
            self.run_one()

    # Surroundings.

    def _input(self, index: int) -> Input:
        for item in self._inputs:
            if item.index == index:
                return item
        raise ConfigurationError(f"{self._name} has no input {index}; make the harness with OperatorHarness.of(stream)")

    def _states(self) -> SubtaskStates:
        keyed = None
        if self._key is not None:
            keyed = MemoryBackend(
                self._key,
                max_parallelism=_KEY_GROUPS,
                key_groups=KeyGroupRange(0, _KEY_GROUPS - 1),
                clock=self.clock,
                uid=self._uid,
            )
        return SubtaskStates(OperatorStates(self._uid, 0), keyed)

    def _context(self) -> OperatorContext:
        values: dict[str, Any] = {
            "job_id": "job",
            "uid": self._uid,
            "subtask": 0,
            "parallelism": 1,
            "max_parallelism": _KEY_GROUPS,
            "attempt": 1,
            "key_columns": (),
            "restored_id": -1,
            "prepared_until": -1,
            "lineage": "job",
            "committer_retries": 2,
            "takes_last_checkpoint": True,
            "states": self.states,
            "clock": self.clock,
            "emit": self.emitted.append,
            "emit_to": lambda output, batch: self.side_emitted.append((output, batch)),
            "emit_watermark": self.watermarks.append,
            "background": self._background,
            "post": self.mail.put,
            "call_later": lambda _, call: self.mail.put(call),
            "send_event": self.events.append,
        }
        return OperatorContext(**{**values, **self._options})


def _node(stream: Stream) -> Node:
    if not isinstance(stream, Stream) or len(stream._inputs) != 1:
        raise ConfigurationError(f"OperatorHarness.of({stream!r}): give the stream that one operator emits")
    node = stream._inputs[0].node
    if not node.inputs:
        raise ConfigurationError(f"OperatorHarness.of({stream!r}): a source has no input; put an operator behind it")
    return node


def _key(node: Node) -> pa.DataType | None:
    keyed = [item for item in node.inputs if item.partitioning is Partitioning.HASH]
    return key_type(keyed[0].schema, keyed[0].key_columns) if node.key_columns and keyed else None


def _unpacked(packed: bytes) -> Operator:
    """A copy, as every subtask gets one."""
    operator: Operator = cloudpickle.loads(packed)
    return operator


def _batches(rows: Any, schema: pa.Schema) -> list[pa.RecordBatch]:
    if isinstance(rows, pa.Table):
        return [conform(batch, schema, "the test") for batch in rows.to_batches()]
    if isinstance(rows, pa.RecordBatch):
        return [conform(rows, schema, "the test")]
    return [batch_of(list(rows), schema, "the test")]
