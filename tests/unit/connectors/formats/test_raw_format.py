"""Messages as they are."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError


def test_bytes_are_a_column() -> None:
    raw = pickle.loads(pickle.dumps(sl.formats.Raw()))
    decoded = raw.decoder().decode([b"\xff", None, b""])
    assert decoded.batch.to_pydict() == {"value": [b"\xff", None, b""]}
    assert (decoded.bad, decoded.kept, decoded.batch.schema) == ([], None, raw.schema())
    assert raw.decoder().decode(pa.array([b"x"], pa.large_binary())).batch.to_pydict() == {"value": [b"x"]}
    assert raw.encoder(raw.schema()).encode(decoded.batch) == [b"\xff", None, b""]


def test_text_is_checked() -> None:
    raw = sl.formats.Raw(text=True, column="line")
    decoded = raw.decoder().decode(["ä".encode(), None, b"\xff", b"x"])
    assert decoded.batch.to_pydict() == {"line": ["ä", None, "x"]}
    ((number, error),) = decoded.bad
    assert number == 2
    assert "cannot be decoded as text in UTF-8" in str(error)
    assert raw.encoder(raw.schema()).encode(decoded.batch) == ["ä".encode(), None, b"x"]


def test_messages_without_a_value_can_be_left_out() -> None:
    decoded = sl.formats.Raw(nulls="skip").decoder().decode([None, b"x"])
    assert decoded.batch.to_pydict() == {"value": [b"x"]}


@pytest.mark.parametrize(
    "schema", [pa.schema([("n", pa.int64())]), pa.schema([("a", pa.binary()), ("b", pa.binary())])]
)
def test_other_rows_are_refused(schema: pa.Schema) -> None:
    with pytest.raises(ConfigurationError, match="writes one column of bytes or text"):
        sl.formats.Raw().check(schema)
