"""User code on the driver: coordinators of sources, and master hooks."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from snapline.errors import SnaplineError, UserCodeError
from snapline.graph.job_spec import JobSpec
from snapline.operators.split_assigner import SplitAssigner
from snapline.protocol.snapshot import StoredObject
from snapline.runtime.master.job_recovery import Recovery, coordinators_of
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_reader import SnapshotReader

T = TypeVar("T")


def inline(name: str, attempt: int, checkpoint_id: int, data: bytes) -> StoredObject:
    """Small state, stored within the metadata."""
    return StoredObject(f"inline:{attempt}/{checkpoint_id}/{name}", len(data), crc32=zlib.crc32(data), data=data)


class OperatorCoordinators:
    """The coordinators of all sources in one attempt; `discovery_intervals_ms` has those that may find more splits."""

    def __init__(self, spec: JobSpec, assigners: Mapping[str, SplitAssigner]) -> None:
        self.vertices = {uid: vertex.id for vertex in spec.plan.vertices for uid in coordinators_of(vertex)}
        self._assigners = assigners
        self._sources = spec.sources
        self.discovery_intervals_ms = {
            uid: interval_ms
            for uid in assigners
            if (interval_ms := spec.sources[uid].discovery_interval_ms) is not None
        }

    def snapshot(self, operator: str) -> bytes:
        return _user(f"the splits of {operator!r}", self._assigners[operator].snapshot)

    def assign(self, operator: str, subtask: int) -> list[tuple[int, Any]]:
        """A subtask requests a split. Returns the events to send now, by subtask."""
        assigner = self._assigners[operator]
        return _user(f"the splits of {operator!r}", lambda: assigner.assign(subtask))

    @property
    def is_exhausted(self) -> bool:
        """Whether everything that was discovered has been read."""
        return all(self._assigners[operator].is_exhausted for operator in self.discovery_intervals_ms)

    def discovery(self, operator: str) -> Callable[[], Any]:
        """A call that looks for more splits. It blocks, and shares nothing with this object."""
        source, known = self._sources[operator], self._assigners[operator].known
        return lambda: _user(f"discover() of the source {operator!r}", lambda: source.discover(known))

    def discovered(self, operator: str, found: Any) -> list[tuple[int, Any]]:
        """Add discovered splits. Returns the events to send now, by subtask."""
        assigner = self._assigners[operator]
        return _user(f"the splits of {operator!r}", lambda: assigner.discovered(found))


def prepare_coordinators(spec: JobSpec, recovery: Recovery, objects: ObjectStore) -> OperatorCoordinators:
    """Create coordinators and reset or restore hooks for the attempt's start. Blocks: it runs user code."""
    plan, reader = recovery.plan, SnapshotReader(objects)
    finished = {subtask.vertex for subtask in plan.finished}
    assigners: dict[str, SplitAssigner] = {}
    for vertex in spec.plan.vertices:
        for uid in coordinators_of(vertex):
            assigner = assigners[uid] = SplitAssigner(spec.sources[uid], vertex.parallelism)
            state = plan.coordinators.get(uid)
            if vertex.id in finished:
                continue
            if state is None:
                _user(f"splits of the source {uid!r}", assigner.start)
            else:
                assigner.restore(reader.read(state))
    for name, hook in spec.hooks.items():
        if recovery.snapshot is None:
            _user(f"reset of the master hook {name!r}", hook.reset)
        else:
            item = plan.hooks.get(name)
            kept = reader.read(item) if item is not None else None
            _user(
                f"restore of the master hook {name!r}",
                lambda hook=hook, kept=kept: hook.restore(recovery.restored_id, kept),  # type: ignore[misc]
            )
    return OperatorCoordinators(spec, assigners)


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
