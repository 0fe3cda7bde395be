"""The state of a coordinator in a checkpoint, with the events on their way to it."""

from __future__ import annotations

import pytest

from snapline.errors import DamagedError
from snapline.protocol.coordinator.coordinator_state import InFlightEvent, parted, with_events
from snapline.protocol.snapshot import StoredObject

STATE = StoredObject("inline:1/2/read", 4, crc32=7, data=b"\x82abc")
EVENTS = [InFlightEvent(0, b"one"), InFlightEvent(70_000, b""), InFlightEvent(0, b"\xc1")]


def test_without_events_the_state_stays_as_it_is() -> None:
    assert with_events(STATE, []) is STATE
    assert parted(b"\x82abc") == (b"\x82abc", [])
    assert parted(b"") == (b"", [])


def test_events_come_back_in_order() -> None:
    stored = with_events(STATE, EVENTS)
    assert stored.data is not None
    assert (stored.path, stored.size_bytes, stored.crc32) == (STATE.path, len(stored.data), None)
    assert parted(stored.data) == (b"\x82abc", EVENTS)


def test_what_is_cut_off_is_damaged() -> None:
    data = with_events(STATE, EVENTS[:1]).data
    assert data is not None
    whole = [1 + 4 + 4, len(data)]  # behind the state, and behind the event
    for length in range(1, len(data) + 1):
        if length in whole:
            parted(data[:length])
        else:
            with pytest.raises(DamagedError, match="cut off"):
                parted(data[:length])
