"""Rows that are asked for elsewhere, many at the same time."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from snapline.contracts.functions import AsyncFunction
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import Row, conform
from snapline.errors import RestoreError, UserCodeError
from snapline.operators.async_calls import Answer, Asker, Patience
from snapline.operators.row_batches import MAX_ROWS, batch_of, raised, rows_of
from snapline.state.operator_state import OperatorList
from snapline.text import shortened
from snapline.types import IDLE, MAX_WATERMARK

_PIECE_ROWS = 64
"""Rows that are waited for are kept in pieces of so many, which is how finely they are dealt out to other subtasks."""

_LONGEST_WAIT_S = 0.1


@dataclass(slots=True)
class _Request:
    """A row that was taken in, number `index` of its batch, and what has come of it."""

    number: int
    batch: pa.RecordBatch
    index: int
    row: Row
    segment: _Segment
    made: list[Row] | None = None


@dataclass(slots=True, eq=False)
class _Segment:
    """The requests between two watermarks, in order; `answered` are those whose rows can be passed on, if in any order.

    `watermarks` is what comes behind them, nothing if it has not come yet: a watermark, and perhaps `IDLE`.
    """

    requests: dict[int, _Request] = field(default_factory=dict)
    answered: list[_Request] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)


class AsyncMap(Operator):
    """Calls a function with each row on other threads, and passes on what it gives.

    Rows that were taken in and not passed on are its state: after a restore they are asked for again. Watermarks wait
    for the rows before them.
    """

    makes_watermarks = True

    _requests: OperatorList
    _asker: Asker[_Request] | None = None

    def __init__(
        self,
        function: Any,
        rows: pa.Schema,
        schema: pa.Schema,
        *,
        ordered: bool,
        capacity: int,
        patience: Patience,
        on_timeout: Callable[[Row], Any] | None,
    ) -> None:
        self._function = function
        self._rows_schema = rows
        self._schema = schema
        self._ordered = ordered
        self._capacity = capacity
        self._patience = patience
        self._on_timeout = on_timeout
        self._segments: deque[_Segment] = deque([_Segment()])
        self._waiting: deque[_Request] = deque()
        self._in_flight = 0
        self._pending = 0
        self._numbers = itertools.count()

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"async_map {context.uid!r}"
        self._requests = context.states.operator.list_state("requests", bytes)
        self._asker = Asker(
            self._function.ask if isinstance(self._function, AsyncFunction) else self._function,
            self._patience,
            self._capacity,
            lambda: context.post(self._take_answers),
            f"{context.uid}-{context.subtask}",
        )
        if isinstance(self._function, AsyncFunction):
            try:
                self._asker.run(self._function.open)
            except Exception as error:
                raise raised(self._what, error) from error
        for piece in self._requests:
            for batch in _unpacked(piece):
                self._take_in(self._restored(batch))
        self._start()

    def _restored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return conform(batch, self._rows_schema, self._what)
        except UserCodeError as error:
            raise RestoreError(
                f"{self._what} was saved with rows of other columns that wait for an answer: {error}. Restore the job "
                "as it was, stop it with a savepoint once they are answered, or use another uid"
            ) from error

    # Rows that come in.

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self._take_in(batch)
        self._start()

    def _take_in(self, batch: pa.RecordBatch) -> None:
        segment = self._segments[-1]
        for index, row in enumerate(rows_of(batch)):
            request = _Request(next(self._numbers), batch, index, row, segment)
            segment.requests[request.number] = request
            self._waiting.append(request)
        self._pending += batch.num_rows

    def _start(self) -> None:
        """Ask as many at the same time as there may be."""
        count = min(self._capacity - self._in_flight, len(self._waiting))
        started = [self._waiting.popleft() for _ in range(count)]
        self._in_flight += count
        self._opened.ask([(request, request.row) for request in started])

    @property
    def is_full(self) -> bool:
        return self._pending >= self._capacity

    @property
    def is_busy(self) -> bool:
        return self._pending > 0

    # Answers that come back.

    def _take_answers(self) -> None:
        for answer in self._opened.take():
            self._in_flight -= 1
            request = answer.question
            request.made = self._rows_of(answer)
            request.segment.answered.append(request)
        self._start()
        self._emit_ready()

    def _rows_of(self, answer: Answer[_Request]) -> list[Row]:
        row, error, made = answer.question.row, answer.error, answer.result
        if answer.is_late:
            if self._on_timeout is None:
                raise UserCodeError(
                    f"{self._what}: no answer within {self._patience.timeout_s:g} s for the row {shortened(row)}; give "
                    "it more time with timeout=, or say with on_timeout= what comes out then"
                ) from error
            try:
                made = self._on_timeout(row)
            except Exception as raised_error:
                raise raised(f"{self._what}, on_timeout,", raised_error) from raised_error
        elif error is not None:
            raise UserCodeError(
                f"{self._what} raised {type(error).__name__}: {error}, for the row {shortened(row)}"
            ) from error
        if made is None:
            return []
        if isinstance(made, dict):
            return [made]
        if isinstance(made, Iterable) and not isinstance(made, str | bytes):
            return list(made)
        raise UserCodeError(
            f"{self._what} gave {shortened(made)} for a row; it must give a row, which is a dict, a list of rows, or "
            "None"
        )

    def _emit_ready(self) -> None:
        """Pass on all that does not have to wait for anything else."""
        rows: list[Row] = []
        while True:
            segment = self._segments[0]
            for request in self._ready(segment):
                del segment.requests[request.number]
                self._pending -= 1
                rows += request.made or ()
                if len(rows) >= MAX_ROWS:
                    self._emit(rows)
            if segment.requests or not segment.watermarks:
                break
            self._segments.popleft()
            self._emit(rows)
            for watermark_ms in segment.watermarks:
                self.context.emit_watermark(watermark_ms)
        self._emit(rows)

    def _ready(self, segment: _Segment) -> Sequence[_Request]:
        if not self._ordered:
            ready, segment.answered = segment.answered, []
            return ready
        segment.answered.clear()
        return list(itertools.takewhile(lambda request: request.made is not None, segment.requests.values()))

    def _emit(self, rows: list[Row]) -> None:
        if rows:
            batch = batch_of(rows, self._schema, self._what)
            rows.clear()
            self.context.emit(batch)

    # Time, and the end.

    def watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == MAX_WATERMARK:
            self.finish()
        elif not self._pending:
            self.context.emit_watermark(timestamp_ms)
        else:
            self._last_segment().watermarks[:] = [timestamp_ms]

    def idle(self) -> bool:
        if not self._pending:
            return True
        self._last_segment().watermarks.append(IDLE)
        return False

    def _last_segment(self) -> _Segment:
        """The one with the last requests; those that come from now on are in another one."""
        if self._segments[-1].requests:
            self._segments.append(_Segment())
        return self._segments[-2]

    def finish(self) -> None:
        """Wait for all answers. A task waits before it tells of the end, so that there are none left."""
        while self._pending:
            self._opened.wait(_LONGEST_WAIT_S)
            self._take_answers()

    # Checkpoints.

    def snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        requests = [request for segment in self._segments for request in segment.requests.values()]
        batches: list[pa.RecordBatch] = []
        for _, same in itertools.groupby(requests, lambda request: id(request.batch)):
            some = list(same)
            batches.append(some[0].batch.take(pa.array([request.index for request in some])))
        table = pa.Table.from_batches(batches, self._rows_schema).unify_dictionaries().combine_chunks()
        self._requests.set([_packed(batch) for batch in table.to_batches(max_chunksize=_PIECE_ROWS)])

    def close(self) -> None:
        asker, self._asker = self._asker, None
        if asker is not None:
            asker.close(self._function.close if isinstance(self._function, AsyncFunction) else None)

    @property
    def _opened(self) -> Asker[_Request]:
        assert self._asker is not None
        return self._asker


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(data: bytes) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(data) as reader:
        return list(reader)
