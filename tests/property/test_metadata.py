"""Any snapshot survives its `_metadata` file, and no damage to the file goes unnoticed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.errors import DamagedError
from snapline.protocol.keygroups import EMPTY, KeyGroupRange
from snapline.protocol.snapshot import (
    ChannelPart,
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
)
from snapline.storage.snapshot_metadata import decode, encode
from snapline.types import OperatorStateMode, SavepointFormat, SnapshotKind

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
paths = st.lists(
    st.sampled_from(["/d", "job", "chk-1", "shared", "a", "..", ".", "", "x y", "ü", "s3:"]), max_size=6
).map("/".join)
counts = st.integers(0, 2**63 - 1)
checksums = st.none() | st.integers(0, 2**32 - 1)


@st.composite
def stored(draw: st.DrawFn, location: str) -> StoredObject:
    if draw(st.booleans()):
        data = draw(st.binary(max_size=8))
        return StoredObject(draw(text), len(data), draw(st.none() | text), crc32=draw(checksums), data=data)
    path = draw(paths | paths.map(lambda rest: f"{location}/{rest}"))
    return StoredObject(path, draw(counts), draw(st.none() | text), offset=draw(counts), crc32=draw(checksums))


key_groups = (
    st.tuples(st.integers(0, 32767), st.integers(0, 32767)).map(sorted).map(lambda ends: KeyGroupRange(*ends))
) | st.just(EMPTY)


def _tuples(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=2).map(tuple)


@st.composite
def subtasks(draw: st.DrawFn, location: str) -> SubtaskState:
    objects = stored(location)
    channels = st.builds(ChannelPart, text, counts, counts, objects)
    parts = st.builds(OperatorPart, text, st.sampled_from(OperatorStateMode), counts, objects, st.booleans())
    keyed = st.builds(KeyedPart, key_groups, _tuples(objects), st.booleans(), st.none() | text)
    return draw(
        st.builds(
            SubtaskState,
            _tuples(keyed),
            _tuples(parts),
            _tuples(channels),
            _tuples(channels),
            st.booleans(),
            st.booleans(),
        )
    )


@st.composite
def operators(draw: st.DrawFn, location: str) -> OperatorState:
    max_parallelism = draw(st.integers(1, 32768))
    parallelism = draw(st.integers(1, max_parallelism))
    states = draw(st.dictionaries(st.integers(0, parallelism - 1), subtasks(location), max_size=2))
    coordinator = draw(st.none() | stored(location))
    return OperatorState(draw(text), parallelism, max_parallelism, states, coordinator, draw(st.booleans()))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    location = draw(paths.filter(bool))
    found = draw(st.lists(operators(location), max_size=2))
    return Snapshot(
        draw(counts),
        draw(st.sampled_from(SnapshotKind)),
        draw(counts),
        draw(counts),
        location,
        {operator.uid: operator for operator in found},
        draw(st.dictionaries(text, stored(location), max_size=2)),
        draw(st.none() | st.sampled_from(SavepointFormat)),
    )


def _everything(snapshot: Snapshot) -> tuple[object, ...]:
    """The snapshot with what its comparison leaves out."""
    order = sorted((uid, index) for uid, operator in snapshot.operators.items() for index in operator.subtasks)
    hidden = [
        (item.crc32, item.data) for uid, index in order for item in snapshot.operators[uid].subtasks[index].objects()
    ]
    return snapshot, hidden, [(name, item.crc32, item.data) for name, item in snapshot.hooks.items()]


@pytest.mark.slow
@settings(max_examples=60)
@given(snapshots())
def test_a_snapshot_survives(snapshot: Snapshot) -> None:
    assert _everything(decode(encode(snapshot), snapshot.location)) == _everything(snapshot)


@settings(max_examples=30)
@given(snapshots(), st.data())
def test_no_cut_goes_unnoticed(snapshot: Snapshot, data: st.DataObject) -> None:
    encoded = encode(snapshot)
    length = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(DamagedError):
        decode(encoded[:length], snapshot.location)


@settings(max_examples=30)
@given(snapshots(), st.data())
def test_no_altered_byte_goes_unnoticed(snapshot: Snapshot, data: st.DataObject) -> None:
    encoded = bytearray(encode(snapshot))
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))
    _refused_or_equal(bytes(encoded), snapshot)


def test_every_cut_and_every_altered_byte_of_one_file() -> None:
    part = KeyedPart(KeyGroupRange(0, 9), (StoredObject("/d/job/chk-1/a", 5, crc32=7),))
    operator = OperatorState("u", 1, 10, {0: SubtaskState((part,))}, StoredObject("inline:", 2, data=b"\n\x00"))
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, "/d/job/chk-1", {"u": operator})
    encoded = encode(snapshot)
    for position in range(len(encoded)):
        with pytest.raises(DamagedError):
            decode(encoded[:position], snapshot.location)
        for value in range(256):
            _refused_or_equal(encoded[:position] + bytes([value]) + encoded[position + 1 :], snapshot)


def _refused_or_equal(data: bytes, snapshot: Snapshot) -> None:
    try:
        decoded = decode(data, snapshot.location)
    except DamagedError:
        return
    assert _everything(decoded) == _everything(snapshot)
