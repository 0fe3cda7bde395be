"""Calls one operator coordinator: user code on the driver, one call at a time, away from the loop."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from snapline.contracts.operator_coordinator import MAX_EVENT_BYTES, CoordinatorContext, OperatorCoordinator
from snapline.contracts.plain_data import event_bytes, plain_bytes
from snapline.errors import SnaplineError, UserCodeError
from snapline.protocol.coordinator.coordinator_state import InFlightEvent
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler

MAX_WAITING_CALLS = 10_000
"""Calls that may wait for one coordinator: events of its subtasks, snapshots and notices."""

_CLOSE = "close"
_NOTICES = frozenset({"subtask_failed", "checkpoint_completed", "checkpoint_subsumed", "checkpoint_aborted"})
"""Calls that reach a coordinator even after its attempt has failed."""

T = TypeVar("T")
_log = JobLogger(__name__)


@dataclass(frozen=True, slots=True)
class CoordinatorPlace:
    """Where a coordinator runs: its operator in this attempt. `restored_id` is -1 without a snapshot."""

    job_id: str
    uid: str
    parallelism: int
    attempt: int
    lineage: str
    restored_id: int


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of the coordinator. `done` gets its result on the loop; `failed` its error, else the job fails."""

    name: str
    call: Callable[[], Any]
    done: Callable[[Any], None] | None = None
    failed: Callable[[Exception], None] | None = None


class CoordinatorRunner:
    """Runs one coordinator in one attempt. Used on the loop, except for `begin`, which blocks.

    What the coordinator orders in a call, such as events to send, is carried out when the call has returned, ahead of
    what follows from its result: events sent before a snapshot leave before it.
    """

    def __init__(
        self,
        coordinator: OperatorCoordinator,
        place: CoordinatorPlace,
        scheduler: Scheduler,
        calls: BackgroundCalls,
        background: BackgroundCalls,
    ) -> None:
        self.parallelism = place.parallelism
        self.restored_id = place.restored_id
        self.closed: Future[None] = Future()
        """Set on the loop once the coordinator is closed."""
        self._coordinator = coordinator
        self._place = place
        self._scheduler = scheduler
        self._calls = calls
        self._background = background
        self._waiting: deque[_Call] = deque()
        self._orders: list[Callable[[], None]] = []
        self._timers: dict[int, Cancellable] = {}
        self._numbers = itertools.count()
        self._send: Callable[[int, Any], None]
        self._failed: Callable[[Exception], None]
        self._backlog: Callable[[bool], None]
        self._is_attached = False
        self._caller: int | None = None
        self._may_send = True
        self._is_calling = False
        self._is_closed = False

    # The start, and the end.

    def begin(self, state: bytes | None) -> None:
        """Start the coordinator, and restore what a snapshot holds of it. Blocks; raises `UserCodeError`."""
        coordinator, place = self._coordinator, self._place
        context = CoordinatorContext(
            job_id=place.job_id,
            uid=place.uid,
            parallelism=place.parallelism,
            attempt=place.attempt,
            lineage=place.lineage,
            restored_id=place.restored_id,
            is_restored=state is not None,
            clock=self._scheduler.wall_ms,
            send=self._send_later,
            background=self._run_in_background,
            call_later=self._call_later,
            post=lambda call: self._scheduler.post(self.run, "a posted call", call),
            report_backlog=lambda has_backlog: self._order("report_backlog", lambda: self._backlog(has_backlog)),
        )
        self._call("start", lambda: coordinator.start(context))
        if state is not None:
            restored = msgspec.msgpack.decode(state)
            self._call("restore", lambda: coordinator.restore(place.restored_id, restored))

    def attach(
        self,
        restored: Sequence[InFlightEvent],
        send: Callable[[int, Any], None],
        failed: Callable[[Exception], None],
        backlog: Callable[[bool], None],
    ) -> None:
        """The attempt runs: `send` gets events for subtasks, `failed` the error that fails the job, and
        `backlog` whether there is much to catch up with.

        `restored` are the events that the snapshot has kept; they come first.
        """
        self._send, self._failed, self._backlog = send, failed, backlog
        self._is_attached = True
        self._carry_out()
        self._waiting.extendleft(self._event_call(*event) for event in reversed(restored))
        self._call_next()

    def move(
        self,
        send: Callable[[int, Any], None],
        failed: Callable[[Exception], None],
        backlog: Callable[[bool], None],
    ) -> None:
        """Another attempt has begun, and this coordinator goes on in it."""
        self._send, self._failed, self._backlog = send, failed, backlog

    def close(self, *, finish: bool) -> None:
        """Close the coordinator behind what waits; if it is not to `finish`, only notices still reach it."""
        if self._is_closed:
            return
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting = deque(call for call in self._waiting if finish or call.name in _NOTICES)
        self._waiting.append(_Call(_CLOSE, self._coordinator.close))
        self._call_next()

    # Calls.

    def handle_event(self, subtask: int, event: bytes) -> None:
        self._add(self._event_call(subtask, event))

    def _event_call(self, subtask: int, event: bytes) -> _Call:
        handle = self._coordinator.handle_event
        return _Call("handle_event", lambda: handle(subtask, msgspec.msgpack.decode(event)))

    def snapshot(self, checkpoint_id: int, done: Callable[[bytes], None], failed: Callable[[Exception], None]) -> None:
        """`done` gets the encoded state, `failed` the error, on the loop."""

        def take() -> bytes:
            self._may_send = False
            try:
                state = self._coordinator.snapshot(checkpoint_id)
            finally:
                self._may_send = True
            return plain_bytes(state, f"the state of the coordinator of {self._place.uid!r}")

        self._add(_Call("snapshot", take, done, failed))

    def drain(self, done: Callable[[], None]) -> None:
        """`done` is called on the loop when the coordinator has nothing left to hand out."""
        self.run("drain", lambda: self._coordinator.drain(lambda: self._scheduler.post(done)))

    def catch_up(self, done: Callable[[], None]) -> None:
        """`done` is called on the loop when everything that there is now has been read."""
        self.run("catch_up", lambda: self._coordinator.catch_up(lambda: self._scheduler.post(done)))

    def resume(self) -> None:
        self.run("resume", self._coordinator.resume)

    def subtask_failed(self, subtask: int, cause: str) -> None:
        self.run("subtask_failed", lambda: self._coordinator.subtask_failed(subtask, cause))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self.run("checkpoint_completed", lambda: self._coordinator.checkpoint_completed(checkpoint_id))

    def checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self.run("checkpoint_subsumed", lambda: self._coordinator.checkpoint_subsumed(checkpoint_id))

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.run("checkpoint_aborted", lambda: self._coordinator.checkpoint_aborted(checkpoint_id))

    def run(self, name: str, call: Callable[[], Any]) -> None:
        """Make a call as one of the coordinator's own, behind those that wait."""
        self._add(_Call(name, call))

    def _add(self, call: _Call) -> None:
        if self._is_closed:
            return
        if len(self._waiting) >= MAX_WAITING_CALLS:
            self._fail(
                UserCodeError(
                    f"{MAX_WAITING_CALLS} calls wait for the coordinator of the operator {self._place.uid!r}: it must "
                    "be quicker, or its subtasks send it fewer events"
                )
            )
            return
        self._waiting.append(call)
        self._call_next()

    def _call_next(self) -> None:
        if self._is_calling or not self._waiting or not (self._is_attached or self._is_closed):
            return
        call = self._waiting.popleft()
        self._is_calling = True
        self._calls.run(
            lambda: self._call(call.name, call.call),
            lambda result: self._returned(call, result),
            lambda error: self._raised(call, error),
            f"{call.name} of the coordinator of {self._place.uid!r}",
        )

    def _call(self, name: str, call: Callable[[], T]) -> T:
        """On a thread of the pool."""
        self._caller = threading.get_ident()
        try:
            return call()
        except SnaplineError:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise UserCodeError(f"{name} of the coordinator of {self._place.uid!r} failed: {problem}") from error
        finally:
            self._caller = None

    def _returned(self, call: _Call, result: Any) -> None:
        self._is_calling = False
        self._carry_out()
        if call.done is not None and not self._is_closed:
            call.done(result)
        self._go_on(call)

    def _raised(self, call: _Call, error: Exception) -> None:
        self._is_calling = False
        self._orders.clear()
        if call.failed is not None and not self._is_closed:
            call.failed(error)
        elif self._is_closed:
            _log.warning("%s", error, exc_info=error, attempt=self._place.attempt)
        else:
            self._fail(error)
        self._go_on(call)

    def _go_on(self, call: _Call) -> None:
        if call.name == _CLOSE:
            self.closed.set_result(None)
        self._call_next()

    def _fail(self, error: Exception) -> None:
        _log.warning("%s", error, exc_info=error, attempt=self._place.attempt)
        self._waiting.clear()
        self._failed(error)

    # What the coordinator orders.

    def _order(self, name: str, order: Callable[[], None]) -> None:
        if self._caller != threading.get_ident():
            raise UserCodeError(
                f"{name} was called outside the calls of the coordinator of {self._place.uid!r}; give the call to "
                "context.post()"
            )
        self._orders.append(order)

    def _carry_out(self) -> None:
        orders, self._orders = self._orders, []
        for order in orders if not self._is_closed else ():
            order()

    def _send_later(self, subtask: int, event: Any) -> None:
        uid, parallelism = self._place.uid, self._place.parallelism
        if not self._may_send:
            raise UserCodeError(f"the coordinator of {uid!r} sends an event in snapshot(); send it in another call")
        if not isinstance(subtask, int) or not 0 <= subtask < parallelism:
            raise UserCodeError(
                f"the coordinator of {uid!r} sends an event to subtask {subtask!r}; there are 0 to {parallelism - 1}"
            )
        data = event_bytes(event, f"an event of the coordinator of {uid!r}", MAX_EVENT_BYTES)
        travelled = msgspec.msgpack.decode(data)
        self._order("send", lambda: self._send(subtask, travelled))

    def _run_in_background(self, call: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        def ended(result: Any, error: Exception | None) -> None:
            future: Future[Any] = Future()
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
            self.run("the end of a background call", lambda: done(future))

        self._order(
            "background",
            lambda: self._background.run(
                call,
                lambda result: ended(result, None),
                lambda error: ended(None, error),
                f"a background call of the coordinator of {self._place.uid!r}",
            ),
        )

    def _call_later(self, delay_ms: int, call: Callable[[], None]) -> None:
        number = next(self._numbers)

        def start() -> None:
            self._timers[number] = self._scheduler.call_later(delay_ms / 1000, due)

        def due() -> None:
            del self._timers[number]
            self.run("a delayed call", call)

        self._order("call_later", start)
