"""All state of one operator in one subtask, and its snapshot in two parts.

The synchronous part takes hold of the state on the task's thread; the asynchronous part writes it on another one while
the task goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from snapline.errors import SnaplineError
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.snapshot import SubtaskState
from snapline.state.channel_state import ChannelParts
from snapline.state.keyed_backend import KeyedBackend, KeyedSnapshot
from snapline.state.operator_state import OperatorSnapshot, OperatorStates
from snapline.state.raw_keyed_state import RawKeyedSnapshot, RawKeyedState
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter

_log = logging.getLogger(__name__)


class SubtaskStates:
    """The state of one operator in one subtask: keyed, raw keyed, and operator state, raw included.

    An operator without keys has no `keyed` and no `raw_keyed` state. Only the task's thread uses it.
    """

    def __init__(
        self, operator: OperatorStates, keyed: KeyedBackend | None = None, raw_keyed: RawKeyedState | None = None
    ) -> None:
        self.operator = operator
        self.keyed = keyed
        self.raw_keyed = raw_keyed

    def restore(self, restore: SubtaskRestore, source: SnapshotReader) -> None:
        """Take in this subtask's share of a snapshot, before any state is used."""
        if self.keyed is not None:
            self.keyed.restore(restore.keyed, source)
        if self.raw_keyed is not None:
            self.raw_keyed.restore(restore.keyed, source)
        self.operator.restore(restore.operator, source)

    def snapshot(self, *, full: bool = False, canonical: bool = False, ended: bool = False) -> PendingSnapshot:
        """The synchronous part.

        `full`: refer to nothing older. `canonical`: keyed state in the open format. `ended`: mark it as the last one.
        """
        operator = self.operator.snapshot()
        raw_keyed = None if self.raw_keyed is None else self.raw_keyed.snapshot()
        # Last, since it has to be released: nothing may fail behind it.
        keyed = None if self.keyed is None else self.keyed.snapshot(full=full, canonical=canonical)
        return PendingSnapshot(keyed, raw_keyed, operator, ended)

    def confirm(self, checkpoint_id: int) -> None:
        """A checkpoint is complete."""
        if self.keyed is not None:
            self.keyed.confirm(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        """A checkpoint will never be."""
        if self.keyed is not None:
            self.keyed.abort(checkpoint_id)

    def close(self) -> None:
        if self.keyed is not None:
            self.keyed.close()


@dataclass(frozen=True, slots=True)
class WrittenSnapshot:
    """What the asynchronous part has written: `new_bytes` for this snapshot, `state_bytes` with what it reuses."""

    state: SubtaskState
    new_bytes: int
    state_bytes: int


class PendingSnapshot:
    """State that waits to be written. Exactly one of `write` and `release` must be called."""

    def __init__(
        self,
        keyed: KeyedSnapshot | None,
        raw_keyed: RawKeyedSnapshot | None,
        operator: OperatorSnapshot,
        ended: bool,
    ) -> None:
        self._keyed = keyed
        self._raw_keyed = raw_keyed
        self._operator = operator
        self._ended = ended

    def write(self, target: SnapshotWriter, channels: Future[ChannelParts] | None = None) -> WrittenSnapshot:
        """The asynchronous part, from any thread. `channels` gives the in-flight data that belongs to the snapshot.

        After `target.cancel()` it raises `SnapshotCancelledError` soon. Whatever it raises, all it has written is
        deleted again.
        """
        try:
            keyed = () if self._keyed is None else self._keyed.write(target)
            raw_keyed = () if self._raw_keyed is None else self._raw_keyed.write(target)
            operator = self._operator.write(target)
            in_flight = ChannelParts((), ()) if channels is None else channels.result()
            target.check()
        except BaseException:
            _attempt(target.discard, f"what is left of checkpoint {target.checkpoint_id} could not be deleted")
            raise
        finally:
            self.release()
        state = SubtaskState((*keyed, *raw_keyed), operator, in_flight.inputs, in_flight.outputs, ended=self._ended)
        objects = set(state.objects())
        return WrittenSnapshot(
            state,
            sum(item.size_bytes for item in objects if not item.reused),
            sum(item.size_bytes for item in objects),
        )

    def release(self) -> None:
        """It will not be written, or is written."""
        if self._keyed is not None:
            self._keyed.release()


def _attempt(action: Callable[[], None], problem: str) -> None:
    """Do something that a later sweep does again: if it fails, only say so."""
    try:
        action()
    except SnaplineError as error:
        _log.warning("%s: %s", problem, error)
