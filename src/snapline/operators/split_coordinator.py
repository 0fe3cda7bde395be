"""The coordinator of a source: assigns its splits, and looks for more while the job runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from snapline.contracts.operator_coordinator import CoordinatorContext, OperatorCoordinator
from snapline.contracts.source import Source, Watermarks
from snapline.errors import SnaplineError, UserCodeError
from snapline.operators.catch_ups import CatchUps
from snapline.operators.split_assigner import Answer, SplitAssigner
from snapline.operators.watermark_alignment import AlignmentGroup

T = TypeVar("T")


class SplitCoordinator(OperatorCoordinator):
    """Answers the subtasks of one source, which ask for splits with an empty event.

    Other events report their event time, for alignment with other subtasks and sources, and whether they have backlog.
    """

    _assigner: SplitAssigner
    _catch_ups: CatchUps

    def __init__(self, source: Source, watermarks: Watermarks | None = None) -> None:
        self._source = source
        self._watermarks = watermarks
        self._alignment: AlignmentGroup | None = None
        self._backlog: set[int] = set()
        self._settled: deque[tuple[int, Any]] = deque()
        """By checkpoint, what is known of splits that were all read before it."""
        self._all_read: deque[Any] = deque()
        self._is_looking = False
        self._next_look = 0
        self._drained: Callable[[], None] | None = None
        self._looks_left = 0
        """While draining, how often the source has still to be asked."""

    def start(self, context: CoordinatorContext) -> None:
        super().start(context)
        self._assigner = SplitAssigner(self._source, context.parallelism)
        self._catch_ups = CatchUps(self._source, self._assigner, context.parallelism, context.attempt, context.send)
        if not context.is_restored:
            self._of_source("splits", self._assigner.start)
        if self._watermarks is not None and self._watermarks.align is not None:
            self._alignment = AlignmentGroup(
                context.job_id,
                self._watermarks.align,
                context.uid,
                context.parallelism,
                lambda slowest_ms: context.post(lambda: self._tell(slowest_ms)),
            )
        self._look_later()

    def restore(self, checkpoint_id: int, state: Any) -> None:
        self._assigner.restore(state)

    def snapshot(self, checkpoint_id: int) -> Any:
        if (known := self._assigner.read_until) is not None:
            self._settled.append((checkpoint_id, known))
        return self._assigner.snapshot()

    def handle_event(self, subtask: int, event: Any) -> None:
        match event:
            case {"time": time_ms, "idle": is_idle}:
                if self._alignment is not None:
                    self._alignment.report(subtask, time_ms, is_idle=is_idle)
            case {"backlog": has_backlog}:
                self._report(subtask, has_backlog=has_backlog)
            case {"caught_up": token}:
                self._catch_ups.answered(subtask, token)
            case _:
                self._answer(self._assigner.assign(subtask))
                self._catch_ups.check()
                self._finish_if_drained()

    def close(self) -> None:
        if self._alignment is not None:
            self._alignment.leave()

    def _tell(self, slowest_ms: int | None) -> None:
        for subtask in range(self.context.parallelism):
            self.context.send(subtask, {"slowest": slowest_ms})

    def _report(self, subtask: int, *, has_backlog: bool) -> None:
        had_backlog = bool(self._backlog)
        (self._backlog.add if has_backlog else self._backlog.discard)(subtask)
        if bool(self._backlog) != had_backlog:
            self.context.report_backlog(bool(self._backlog))

    # What the system outside may forget.

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        known = None
        while self._settled and self._settled[0][0] <= checkpoint_id:
            known = self._settled.popleft()[1]
        if known is not None:
            self._all_read.append(known)
            if len(self._all_read) == 1:
                self._forget()

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._settled = deque(entry for entry in self._settled if entry[0] != checkpoint_id)

    def _forget(self) -> None:
        source, known = self._source, self._all_read[0]
        self.context.background(lambda: source.all_read(known), self._forgotten)

    def _forgotten(self, done: Future[None]) -> None:
        self._of_source("all_read()", done.result)
        self._all_read.popleft()
        if self._all_read:
            self._forget()

    # Looking for more.

    @property
    def _interval_ms(self) -> int | None:
        return self._source.discovery_interval_ms

    def _look_later(self) -> None:
        if self._interval_ms is not None:
            self._next_look += 1
            number = self._next_look
            self.context.call_later(self._interval_ms, lambda: self._look_again(number))

    def _look_again(self, number: int) -> None:
        if number == self._next_look and self._drained is None and not self._is_looking:
            if self._has_room:
                self._look()
            else:
                self._look_later()

    @property
    def _has_room(self) -> bool:
        limit = self._source.max_waiting_splits
        return limit is None or self._assigner.unassigned <= limit

    def _look(self) -> None:
        self._is_looking = True
        self._catch_ups.look_begins()
        source, known = self._source, self._assigner.known
        self.context.background(lambda: source.discover(known), self._found)

    def _found(self, found: Future[Any]) -> None:
        self._is_looking = False
        splits = self._of_source("discover()", found.result)
        self._answer(self._assigner.discovered(splits))
        self._catch_ups.looked(has_found=bool(splits[0]))
        if self._drained is None:
            if self._catch_ups.wants_look and self._has_room:
                self._look()
            else:
                self._look_later()
            return
        self._looks_left -= 1
        if self._looks_left:
            self._look()
        else:
            self._finish_if_drained()

    # Catching up, and draining.

    def catch_up(self, done: Callable[[], None]) -> None:
        """Look once more, at once; done when all splits that are known then are read to their ends, or to now."""
        if self._source.is_bounded:
            done()
            return
        self._catch_ups.add(done)
        if self._catch_ups.wants_look and not self._is_looking and self._has_room:
            self._look()

    def drain(self, done: Callable[[], None]) -> None:
        """Look once more, then not again; everything is handed out when all subtasks ask in vain."""
        if self._interval_ms is None:
            done()
            return
        self._drained = done
        # A look that is under way may have missed what is there now.
        self._looks_left = 2 if self._is_looking else 1
        if not self._is_looking:
            self._look()

    def resume(self) -> None:
        was_draining, self._drained = self._drained is not None, None
        if was_draining and not self._is_looking:
            self._look_later()

    def _finish_if_drained(self) -> None:
        if self._drained is not None and not self._looks_left and self._assigner.is_exhausted:
            self._drained()

    def _of_source(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except SnaplineError:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise UserCodeError(f"{what} of the source {self.context.uid!r} failed: {problem}") from error

    def _answer(self, answers: Sequence[tuple[int, Answer]]) -> None:
        for subtask, answer in answers:
            self.context.send(subtask, answer)
