"""Items as frames, and back."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import PeerError
from snapline.runtime.network import item_codec as codec
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.types import IDLE, Barrier, BarrierKind, SavepointFormat, SnapshotKind

KEY = codec.ChannelKey(3, 65_535, 0)
WORDS = pa.array(["a", None, "ccc", "dddd"])
ARRAYS = {
    "int": pa.array([1, None, 3, 4]),
    "bool": pa.array([True, False, None, True]),
    "string": WORDS,
    "large string": WORDS.cast(pa.large_string()),
    "string view": WORDS.cast(pa.string_view()),
    "list": pa.array([["a"], [], None, ["b", "c"]]),
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": 2, "y": None}, {"x": None, "y": "d"}]),
    "map": pa.array([[("a", 1)], [], None, [("b", 2)]], pa.map_(pa.string(), pa.int32())),
    "decimal": pa.array([1, 2, None, 4], pa.decimal128(10, 2)),
    "null": pa.nulls(4),
    "dictionary": WORDS.dictionary_encode(),
    "list of dictionaries": pa.ListArray.from_arrays([0, 1, 2, 3, 4], WORDS.dictionary_encode()),
    "struct of dictionaries": pa.StructArray.from_arrays([WORDS.dictionary_encode()], ["x"]),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array(["x", "y"])),
    "fixed list": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
    "union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a", "b"])]
    ),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 4, pa.binary(16))),
}


def there_and_back(item: Item, schema: pa.Schema | None = None) -> Item:
    schema = schema or pa.schema([])
    frame = codec.encode(KEY, item, with_dictionaries=codec.has_dictionary(schema))
    data = b"".join(memoryview(part) for part in frame)
    header = codec.decode_header(data[: codec.HEADER_BYTES])
    assert header.key == KEY
    assert header.length == len(data) - codec.HEADER_BYTES
    return codec.decode(header, pa.py_buffer(data[codec.HEADER_BYTES :]), schema)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("is_filtered", [False, True])
def test_batches_of_every_type(name: str, is_filtered: bool) -> None:
    batch = pa.record_batch([ARRAYS[name]], names=[name])
    for given in (batch, batch.slice(1, 2), batch.slice(0, 0)):
        item = data_item(given, filtered=is_filtered)
        result = there_and_back(item, batch.schema)
        assert result.kind is item.kind
        assert result.size == item.size
        assert result.value.equals(given)
        result.value.validate(full=True)


def test_a_batch_without_columns() -> None:
    batch = pa.record_batch([], names=[])
    assert there_and_back(data_item(batch), batch.schema).value.num_columns == 0


@pytest.mark.parametrize("kind", ["int64", "string", "list"])
def test_a_slice_does_not_bring_its_whole_batch_along(kind: str) -> None:
    numbers = pa.array(range(100_000))
    texts = numbers.cast(pa.string())
    lists = pa.ListArray.from_arrays(pa.array(range(100_001), pa.int32()), texts)
    batch = pa.record_batch({"int64": [numbers], "string": [texts], "list": [lists]}[kind], names=["x"])
    _, body = codec.encode(KEY, data_item(batch.slice(50_000, 10)))
    assert body.size < 2_000


@pytest.mark.parametrize(
    "item",
    [
        Item(ItemKind.WATERMARK, 0),
        Item(ItemKind.WATERMARK, IDLE),
        Item(ItemKind.WATERMARK, (1 << 63) - 1),
        Item(ItemKind.LATENCY, 123),
        Item(ItemKind.CANCEL, 7),
        Item(ItemKind.END_OF_DATA, 9),
        Item(ItemKind.END_OF_PARTITION),
        Item(ItemKind.BARRIER, Barrier(5, 17)),
        Item(
            ItemKind.BARRIER,
            Barrier(
                5,
                17,
                BarrierKind.ALIGNED_WITH_TIMEOUT,
                30,
                SnapshotKind.SYNC_SAVEPOINT,
                True,
                True,
                "s3://somewhere/ü",
                SavepointFormat.NATIVE,
            ),
        ),
    ],
)
def test_everything_else(item: Item) -> None:
    assert there_and_back(item) == item


def test_answers() -> None:
    head, body = codec.encode_credit(KEY, 1 << 40)
    header = codec.decode_header(head)
    assert (header.kind, header.key) == (codec.CREDIT, KEY)
    assert codec.decode_number(body) == 1 << 40
    assert codec.decode_header(*codec.encode_end_read(KEY)).kind == codec.END_READ


def test_dictionaries_are_found_wherever_they_are() -> None:
    for name, array in ARRAYS.items():
        assert codec.has_dictionary(array.type) == ("dictionar" in name), name


@pytest.mark.parametrize(
    ("kind", "length", "complaint"), [(200, 0, "unknown kind"), (8, 0, "unknown kind"), (0, 1 << 30, "no more than")]
)
def test_a_bad_header_is_refused(kind: int, length: int, complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        codec.decode_header(struct.pack("<BBHHHIQ", kind, 0, 0, 0, 0, length, 0))


@pytest.mark.parametrize("kind", [0, 1, 2, 4, 5])
@pytest.mark.parametrize("flags", [0, 1])
@pytest.mark.parametrize("body", [b"", b"garbage", b"\xff" * 100, b"\0" * 64])
def test_a_bad_body_is_refused(kind: int, flags: int, body: bytes) -> None:
    header: Any = codec.Header(kind, flags, KEY, len(body), 0)
    schema = pa.schema([("x", pa.int64())])
    if kind == 0 and flags == 0:
        other = pa.record_batch([["a"]], names=["x"]).serialize()
        body = other.to_pybytes()[:-8]
    with pytest.raises(PeerError):
        codec.decode(header, pa.py_buffer(body), schema)


def test_a_heartbeat_is_a_frame_without_a_body() -> None:
    (frame,) = codec.encode_heartbeat()
    header = codec.decode_header(frame)
    assert (header.kind, header.length, len(frame)) == (codec.HEARTBEAT, 0, codec.HEADER_BYTES)
