"""Async map: a user function called for many rows at the same time."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from snapline.contracts.dead_letters import OnError
from snapline.contracts.functions import AsyncFunction
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.plain_data import stream_bytes
from snapline.contracts.schemas import Row, conform
from snapline.errors import RestoreError, TransientError, UserCodeError
from snapline.operators.async_calls import AsyncCalls, CallOutcome, RetryPolicy
from snapline.operators.bad_rows import BadRows
from snapline.operators.row_batches import MAX_ROWS, UserCode, row_at, rows_of
from snapline.text import shortened
from snapline.types import IDLE, MAX_WATERMARK

_PIECE_ROWS = 64
"""Rows per entry of the state: the granularity in which pending rows are redistributed."""

_LONGEST_WAIT_S = 0.1


@dataclass(slots=True)
class _Request:
    """A pending row, number `index` of its batch, and the rows made of it, or why none could be made."""

    number: int
    batch: pa.RecordBatch
    index: int
    row: Row
    segment: _Segment
    made: list[Row] | None = None
    error: Exception | None = None

    @property
    def original(self) -> Row:
        """The row as it came; the function may have changed the one it was given."""
        return row_at(self.batch, self.index)


@dataclass(slots=True, eq=False)
class _Segment:
    """The requests between two watermarks, in order; `answered` are those that can be emitted if unordered.

    `watermarks` follow the requests: empty so far, or a watermark and perhaps `IDLE`.
    """

    requests: dict[int, _Request] = field(default_factory=dict)
    answered: list[_Request] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)


class AsyncMap(Operator):
    """Calls a function with each row on other threads, and emits the rows it returns.

    Pending rows are its state: after a restore the function is called for them again. Watermarks wait for the rows
    before them.
    """

    makes_watermarks = True

    _calls: AsyncCalls[_Request] | None = None
    _closed_calls: AsyncCalls[_Request] | None = None

    def __init__(
        self,
        function: Any,
        rows: pa.Schema,
        schema: pa.Schema,
        *,
        ordered: bool,
        capacity: int,
        policy: RetryPolicy,
        on_timeout: Callable[[Row], Any] | None,
        on_error: OnError = OnError.FAIL,
    ) -> None:
        self._function = function
        self._rows_schema = rows
        self._schema = schema
        self._ordered = ordered
        self._capacity = capacity
        self._policy = policy
        self._on_timeout = on_timeout
        self._on_error = on_error
        self._segments: deque[_Segment] = deque([_Segment()])
        self._waiting: deque[_Request] = deque()
        self._in_flight = 0
        self._pending = 0
        self._numbers = itertools.count()

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"async_map {context.uid!r}"
        self._bad = BadRows(self, context, self._what, self._on_error)
        self._requests = context.states.operator.list_state("requests", bytes)
        self._calls = AsyncCalls(
            self._function.ask if isinstance(self._function, AsyncFunction) else self._function,
            self._policy,
            self._capacity,
            lambda: context.post(self._take_outcomes),
            f"{context.uid}-{context.subtask}",
        )
        if isinstance(self._function, AsyncFunction):
            with UserCode(self._what):
                self._calls.run(self._function.open)
        for piece in self._requests:
            for batch in pa.ipc.open_stream(piece):
                self._take_in(self._restored(batch))
        self._start()

    def _restored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return conform(batch, self._rows_schema, self._what)
        except UserCodeError as error:
            raise RestoreError(
                f"{self._what} was saved with pending rows of other columns: {error}. Restore the job as it was, stop "
                "it with a savepoint when no rows are pending, or use another uid"
            ) from error

    # Requests.

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
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
        """Start waiting requests up to the capacity."""
        count = min(self._capacity - self._in_flight, len(self._waiting))
        started = [self._waiting.popleft() for _ in range(count)]
        self._in_flight += count
        self._opened.start([(request, request.row) for request in started])

    @property
    def is_full(self) -> bool:
        return self._pending >= self._capacity

    @property
    def is_busy(self) -> bool:
        return self._pending > 0

    # Outcomes.

    def _take_outcomes(self) -> None:
        for outcome in self._opened.take():
            self._in_flight -= 1
            request = outcome.request
            try:
                request.made = self._rows_of(outcome)
            except Exception as error:
                if self._bad.may_fail:
                    self._fail(request, error)
                # Later, with the rows before it: until then checkpoints contain the row, and it is called for again.
                request.made, request.error = [], error
            request.segment.answered.append(request)
        self._start()
        self._emit_ready()

    def _rows_of(self, outcome: CallOutcome[_Request]) -> list[Row]:
        made = outcome.result
        if outcome.is_late:
            if self._on_timeout is None:
                kind = TransientError if self._bad.may_fail else UserCodeError
                raise kind(
                    f"{self._what}: no answer within {self._policy.timeout_s:g} s; raise timeout=, or return a row "
                    "instead with on_timeout="
                ) from outcome.error
            with UserCode(f"{self._what}, on_timeout,"):
                made = self._on_timeout(outcome.request.row)
        elif outcome.error is not None:
            raise outcome.error
        if made is None:
            return []
        if isinstance(made, dict):
            return [made]
        if isinstance(made, Iterable) and not isinstance(made, str | bytes):
            return list(made)
        raise UserCodeError(
            f"{self._what} gave {shortened(made)}; it must return a row, which is a dict, a list of rows, or None"
        )

    def _emit_ready(self) -> None:
        """Emit all rows and watermarks that need not wait for others."""
        rows: list[Row] = []
        origins: list[_Request] = []
        ends: list[int] = []
        while True:
            segment = self._segments[0]
            for request in self._ready(segment):
                del segment.requests[request.number]
                self._pending -= 1
                if request.error is not None:
                    self._fail(request, request.error)
                elif request.made:
                    rows += request.made
                    origins.append(request)
                    ends.append(len(rows))
                if len(rows) >= MAX_ROWS:
                    self._emit(rows, origins, ends)
            if segment.requests or not segment.watermarks:
                break
            self._segments.popleft()
            self._emit(rows, origins, ends)
            for watermark_ms in segment.watermarks:
                self.context.emit_watermark(watermark_ms)
        self._emit(rows, origins, ends)
        self._bad.flush()

    def _fail(self, request: _Request, error: Exception) -> None:
        self._bad.take(error, request.original)

    def _ready(self, segment: _Segment) -> Sequence[_Request]:
        if not self._ordered:
            ready, segment.answered = segment.answered, []
            return ready
        segment.answered.clear()
        return list(itertools.takewhile(lambda request: request.made is not None, segment.requests.values()))

    def _emit(self, rows: list[Row], origins: list[_Request], ends: list[int]) -> None:
        """Emit the rows made of requests; those of request n are before `ends[n]`."""
        if rows:
            for batch in self._bad.fitting(rows, self._schema, lambda number: origins[number].original, ends):
                self.context.emit(batch)
            for items in (rows, origins, ends):
                items.clear()

    # Watermarks, and the end.

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
        """The segment with the last requests; later ones go to a new segment."""
        if self._segments[-1].requests:
            self._segments.append(_Segment())
        return self._segments[-2]

    def finish(self) -> None:
        """Wait for all calls. None are left if the task has waited for `is_busy` before it signals the end."""
        while self._pending:
            self._opened.wait(_LONGEST_WAIT_S)
            self._take_outcomes()

    # Checkpoints.

    def snapshot(self, checkpoint_id: int) -> None:
        requests = [request for segment in self._segments for request in segment.requests.values()]
        batches: list[pa.RecordBatch] = []
        for _, same in itertools.groupby(requests, lambda request: id(request.batch)):
            some = list(same)
            batches.append(some[0].batch.take(pa.array([request.index for request in some])))
        table = pa.Table.from_batches(batches, self._rows_schema).unify_dictionaries().combine_chunks()
        pieces = [table.slice(start, _PIECE_ROWS) for start in range(0, table.num_rows, _PIECE_ROWS)]
        self._requests.set(map(stream_bytes, pieces))

    def close(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            self._closed_calls = calls
            calls.close(self._function.close if isinstance(self._function, AsyncFunction) else None)

    def join(self) -> None:
        if self._closed_calls is not None:
            self._closed_calls.join()

    @property
    def _opened(self) -> AsyncCalls[_Request]:
        assert self._calls is not None
        return self._calls
