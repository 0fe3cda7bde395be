"""User code on the driver: operator coordinators, and master hooks."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from snapline.errors import SnaplineError, UserCodeError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.coordinator.coordinator_state import InFlightEvent, parted
from snapline.protocol.snapshot import StoredObject
from snapline.runtime.master.coordinator_runner import CoordinatorPlace, CoordinatorRunner
from snapline.runtime.master.job_recovery import Recovery, coordinators_of
from snapline.runtime.master.master_calls import MasterCalls
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.types import NO_CHECKPOINT, SubtaskId

T = TypeVar("T")


def inline(name: str, attempt: int, checkpoint_id: int, data: bytes) -> StoredObject:
    """Small state, stored within the metadata."""
    return StoredObject(f"inline:{attempt}/{checkpoint_id}/{name}", len(data), crc32=zlib.crc32(data), data=data)


class OperatorCoordinators:
    """The coordinators of all operators in one attempt. Used on the loop. Operators that had finished have none."""

    def __init__(
        self,
        spec: JobSpec,
        runners: Mapping[str, CoordinatorRunner],
        in_flight: Mapping[str, Sequence[InFlightEvent]],
    ) -> None:
        self.vertices = {uid: vertex.id for vertex in spec.plan.vertices for uid in coordinators_of(vertex)}
        self._runners = runners
        self._in_flight = in_flight

    def attach(
        self,
        send: Callable[[str, int, Any], None],
        failed: Callable[[str, Exception], None],
        backlog: Callable[[str, bool], None],
    ) -> None:
        """The attempt runs: `send` gets events for subtasks of an operator, `failed` an error of its coordinator.

        `backlog` gets whether an operator has much to catch up with.
        """
        for uid, runner in self._runners.items():
            calls = partial(send, uid), partial(failed, uid), partial(backlog, uid)
            if uid in self._in_flight:
                runner.attach(self._in_flight[uid], *calls)
            else:
                runner.move(*calls)

    def keep(self, before: OperatorCoordinators, vertices: Collection[str]) -> None:
        """Take over those of the attempt before, except of these vertices, which have restarted."""
        kept = {uid: runner for uid, runner in before._runners.items() if before.vertices[uid] not in vertices}
        self._runners = {**kept, **self._runners}

    def handle_event(self, operator: str, subtask: int, event: bytes) -> None:
        if operator in self._runners:
            self._runners[operator].handle_event(subtask, event)

    def snapshot(
        self,
        operator: str,
        checkpoint_id: int,
        done: Callable[[bytes | None], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`done` gets the state on the loop, None for an operator that had finished; `failed` an error."""
        if operator in self._runners:
            self._runners[operator].snapshot(checkpoint_id, done, failed)
        else:
            done(None)

    def checkpoint_completed(self, checkpoint_id: int, subsumed_id: int) -> None:
        for runner in self._runners.values():
            if checkpoint_id <= runner.restored_id:
                continue  # it began with this one
            runner.checkpoint_completed(checkpoint_id)
            if subsumed_id != NO_CHECKPOINT:
                runner.checkpoint_subsumed(subsumed_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        for runner in self._runners.values():
            runner.checkpoint_aborted(checkpoint_id)

    def subtask_failed(self, subtask: SubtaskId, cause: str) -> None:
        for uid, runner in self._runners.items():
            if self.vertices[uid] == subtask.vertex:
                runner.subtask_failed(subtask.index, cause)

    def drain(self, done: Callable[[], None]) -> None:
        """The job is to be drained; `done` is called on the loop once no coordinator has anything left to hand out."""
        self._ask_all(lambda runner, answer: runner.drain(answer), done)

    def catch_up(self, done: Callable[[], None]) -> None:
        """`done` is called on the loop once everything is read that there is now."""
        self._ask_all(lambda runner, answer: runner.catch_up(answer), done)

    def _ask_all(self, ask: Callable[[CoordinatorRunner, Callable[[], None]], None], done: Callable[[], None]) -> None:
        waiting = set(self._runners)

        def answered(uid: str) -> None:
            if uid in waiting:
                waiting.discard(uid)
                if not waiting:
                    done()

        for uid, runner in self._runners.items():
            ask(runner, partial(answered, uid))
        if not self._runners:
            done()

    def resume(self) -> None:
        """The job was not drained after all."""
        for runner in self._runners.values():
            runner.resume()

    def slot_lost(self, slot: int, cause: str) -> None:
        """Slot i runs subtask i of every operator that has one."""
        for runner in self._runners.values():
            if slot < runner.parallelism:
                runner.subtask_failed(slot, cause)

    def close(self, *, finish: bool, vertices: Collection[str] | None = None) -> None:
        """The attempt is over, or only these vertices are.

        With `finish` the job is over too, and coordinators still handle what has arrived.
        """
        for uid, runner in self._runners.items():
            if vertices is None or self.vertices[uid] in vertices:
                runner.close(finish=finish)

    @property
    def closed(self) -> list[Future[None]]:
        """Set on the loop when all coordinators are closed."""
        return [runner.closed for runner in self._runners.values()]


def prepare_coordinators(
    spec: JobSpec, recovery: Recovery, objects: ObjectStore, scheduler: Scheduler, calls: MasterCalls
) -> OperatorCoordinators:
    """Start the coordinators of what starts, and reset or restore hooks. Blocks: it runs user code."""
    plan, reader = recovery.plan, SnapshotReader(objects)
    finished, starting = {subtask.vertex for subtask in plan.finished}, recovery.vertices(spec.regions)
    runners: dict[str, CoordinatorRunner] = {}
    in_flight: dict[str, Sequence[InFlightEvent]] = {}
    try:
        for vertex in spec.plan.vertices:
            for uid in coordinators_of(vertex) if vertex.id in starting - finished else ():
                stored = plan.coordinators.get(uid)
                state, in_flight[uid] = (None, []) if stored is None else parted(reader.read(stored))
                coordinator = _user(f"make_coordinator of {uid!r}", partial(spec.make_coordinator, uid))
                place = CoordinatorPlace(
                    spec.job_id, uid, vertex.parallelism, recovery.attempt, recovery.lineage.id, recovery.restored_id
                )
                runner = CoordinatorRunner(coordinator, place, scheduler, calls.coordinators, calls.background)
                runners[uid] = runner
                runner.begin(state)
        _prepare_hooks(spec, recovery, reader)
    except BaseException:
        for runner in runners.values():
            scheduler.post(partial(runner.close, finish=False))
        raise
    return OperatorCoordinators(spec, runners, in_flight)


def _prepare_hooks(spec: JobSpec, recovery: Recovery, reader: SnapshotReader) -> None:
    for name, hook in spec.hooks.items():
        if recovery.snapshot is None:
            _user(f"reset of the master hook {name!r}", hook.reset)
        else:
            item = recovery.plan.hooks.get(name)
            kept = reader.read(item) if item is not None else None
            _user(
                f"restore of the master hook {name!r}",
                lambda hook=hook, kept=kept: hook.restore(recovery.restored_id, kept),  # type: ignore[misc]
            )


def snapshot_hook(spec: JobSpec, name: str, checkpoint_id: int) -> bytes | None:
    """Blocks: it runs user code."""
    return _user(f"snapshot of the master hook {name!r}", lambda: spec.hooks[name].snapshot(checkpoint_id))


def _user(what: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except SnaplineError:
        raise
    except Exception as error:
        raise UserCodeError(f"{what} failed: {type(error).__name__}: {error}") from error
