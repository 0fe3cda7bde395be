"""Text that a checkpoint keeps comes back as it was."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from snapline.connectors.postgres import stored_text
from snapline.connectors.postgres.stored_text import StoredText, texts
from snapline.errors import RestoreError

LINE = b"a line of text\n"


def test_text_comes_back_in_order_and_once() -> None:
    kept = StoredText()
    lines = [b"%d\n" % number for number in range(10)]
    for line in lines:
        kept.add(pa.py_buffer(line))
    (part,) = msgspec.msgpack.decode(msgspec.msgpack.encode(kept.take()))
    assert b"".join(texts(part)) == b"".join(lines)
    assert kept.take() == []
    assert kept.size_bytes == 0


def test_much_text_comes_in_parts_of_compressed_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_text, "PIECE_BYTES", 100 * len(LINE))
    monkeypatch.setattr(stored_text, "PART_BYTES", 300 * len(LINE))
    kept = StoredText()
    for _ in range(1001):
        kept.add(pa.py_buffer(LINE))
    assert 0 < kept.size_bytes < 100 * len(LINE), "only what is compressed stays"
    parts = kept.take()
    assert [[size // len(LINE) for size, _ in part] for part in parts] == [[100] * 3] * 3 + [[100, 1]]
    assert b"".join(text for part in parts for text in texts(part)) == LINE * 1001


def test_damaged_text_is_refused() -> None:
    kept = StoredText()
    kept.add(pa.py_buffer(LINE * 100))
    ((size, packed),) = kept.take()[0]
    for damaged in ([size, packed[:-3]], [size - 1, packed], [size, b"nothing"]):
        with pytest.raises(RestoreError, match="damaged"):
            list(texts([damaged]))
