"""All state of one operator in one subtask, and its snapshot in two parts.

The synchronous part freezes the state on the task's thread; the asynchronous part writes it on another thread while
the task goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from snapline.errors import SnaplineError
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.snapshot import SubtaskState
from snapline.state.channel_state import ChannelParts
from snapline.state.keyed_backend import KeyedBackend, KeyedSnapshot
from snapline.state.operator_snapshot import OperatorSnapshot
from snapline.state.operator_state import OperatorStates
from snapline.state.raw_keyed_state import RawKeyedSnapshot, RawKeyedState
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter

_log = logging.getLogger(__name__)


class SubtaskStates:
    """The state of one operator in one subtask: operator state, and with keys also keyed and raw keyed state.

    `watermark_ms` is the operator's watermark, which it keeps up to date itself; None before the first. For the task's
    thread only.
    """

    def __init__(
        self, operator: OperatorStates, keyed: KeyedBackend | None = None, raw_keyed: RawKeyedState | None = None
    ) -> None:
        self.operator = operator
        self.keyed = keyed
        self.raw_keyed = raw_keyed
        self.watermark_ms: int | None = None
        self._backends = () if keyed is None else (keyed,)
        self._raw_states = () if raw_keyed is None else (raw_keyed,)

    def restore(self, restore: SubtaskRestore, source: SnapshotReader) -> None:
        """Add this subtask's share of a snapshot, before any state is used."""
        for state in (*self._backends, *self._raw_states):
            state.restore(restore.keyed, source)
        self.operator.restore(restore.operator, source)
        self.watermark_ms = restore.watermark_ms

    def snapshot(
        self, *, full: bool = False, alone: bool = True, canonical: bool = False, ended: bool = False
    ) -> PendingSnapshot:
        """The synchronous part.

        `full`: write all keyed state. `alone`: refer to nothing older. `canonical`: keyed state in the open format.
        `ended`: the operator has ended.
        """
        operator = self.operator.snapshot(alone=alone)
        raw_keyed = [state.snapshot() for state in self._raw_states]
        # Last, because this snapshot has to be released: nothing may fail after it.
        keyed = [backend.snapshot(full=full, canonical=canonical) for backend in self._backends]
        return PendingSnapshot([*keyed, *raw_keyed], operator, ended, self.watermark_ms)

    def confirm(self, checkpoint_id: int) -> None:
        self.operator.confirm(checkpoint_id)
        for backend in self._backends:
            backend.confirm(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        self.operator.abort(checkpoint_id)
        for backend in self._backends:
            backend.abort(checkpoint_id)

    def close(self) -> None:
        for backend in self._backends:
            backend.close()


@dataclass(frozen=True, slots=True)
class WrittenSnapshot:
    """What the asynchronous part wrote: `new_bytes` for this snapshot, `state_bytes` including reused objects."""

    state: SubtaskState
    new_bytes: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class PendingSnapshot:
    """Frozen state to be written. Exactly one of `write` and `release` must be called."""

    _keyed: Sequence[KeyedSnapshot | RawKeyedSnapshot]
    _operator: OperatorSnapshot
    _ended: bool
    _watermark_ms: int | None = None

    def write(self, target: SnapshotWriter, channels: Future[ChannelParts] | None = None) -> WrittenSnapshot:
        """The asynchronous part, on any thread. `channels` is the in-flight data that belongs to the snapshot.

        Raises `SnapshotCancelledError` soon after `target.cancel()`. Whatever it raises, it deletes what it wrote.
        """
        try:
            keyed = tuple(part for snapshot in self._keyed for part in snapshot.write(target))
            operator = self._operator.write(target)
            in_flight = ChannelParts((), ()) if channels is None else channels.result()
            target.check()
        except BaseException:
            try:
                target.discard()
            except SnaplineError as error:
                # A later sweep deletes it.
                _log.warning("what is left of checkpoint %d could not be deleted: %s", target.checkpoint_id, error)
            raise
        finally:
            self.release()
        inputs, outputs = in_flight.inputs, in_flight.outputs
        state = SubtaskState(keyed, operator, inputs, outputs, ended=self._ended, watermark_ms=self._watermark_ms)
        objects = set(state.objects())
        new_bytes = sum(item.size_bytes for item in objects if not item.reused)
        return WrittenSnapshot(state, new_bytes, sum(item.size_bytes for item in objects))

    def release(self) -> None:
        """Free the state without writing it. `write` does this itself."""
        for snapshot in self._keyed:
            snapshot.release()
