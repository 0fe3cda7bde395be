"""The state of an operator coordinator in a checkpoint: its own bytes, and the events that were on their way to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from snapline.errors import DamagedError
from snapline.protocol.snapshot import StoredObject

_MARK = b"\xc1"
"""Begins an object with events. No msgpack begins so: without events the object is the coordinator's state alone."""

_SIZE = 4


class InFlightEvent(NamedTuple):
    """An event that a subtask sent before its barrier, and the coordinator had not handled at its snapshot."""

    subtask: int
    event: bytes


def with_events(state: StoredObject, events: Sequence[InFlightEvent]) -> StoredObject:
    """The state of a coordinator together with the events on their way to it."""
    if not events:
        return state
    assert state.data is not None
    parts = [_MARK, _sized(state.data)]
    for subtask, event in events:
        parts += [subtask.to_bytes(_SIZE), _sized(event)]
    data = b"".join(parts)
    return replace(state, data=data, size_bytes=len(data), crc32=None)


def parted(data: bytes) -> tuple[bytes, list[InFlightEvent]]:
    """The coordinator's own state, and the events. Raises `DamagedError`."""
    if data[:1] != _MARK:
        return data, []
    state, at = _part(data, len(_MARK))
    events: list[InFlightEvent] = []
    while at < len(data):
        event, end = _part(data, at + _SIZE)
        events.append(InFlightEvent(int.from_bytes(data[at : at + _SIZE]), event))
        at = end
    return state, events


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(_SIZE) + data


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    start = at + _SIZE
    end = start + int.from_bytes(data[at:start])
    if start > len(data) or end > len(data):
        raise DamagedError("the state of an operator coordinator is cut off")
    return data[start:end], end
