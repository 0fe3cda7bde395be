"""Data as it comes back from a checkpoint."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.contracts.plain_data import event_bytes, plain_data, stream_bytes
from snapline.errors import UserCodeError


def test_plain_data_is_what_comes_back() -> None:
    assert plain_data(({"a": (1, b"x")}, None), "it") == [{"a": [1, b"x"]}, None]


@pytest.mark.parametrize("item", [object(), 1 << 70, {1, object()}])
def test_other_data_is_refused(item: object) -> None:
    with pytest.raises(UserCodeError, match=r"the thing is no plain data: .*; use numbers, text"):
        plain_data([item], "the thing")


def test_a_stream_has_only_the_rows_of_a_slice() -> None:
    table = pa.table({"n": range(100_000)})
    data = stream_bytes(table.slice(10, 3))
    assert pa.ipc.open_stream(data).read_all() == pa.table({"n": [10, 11, 12]})
    assert len(data) < 1000


def test_events_have_a_limit() -> None:
    assert event_bytes("abc", "it", 4) == b"\xa3abc"
    with pytest.raises(UserCodeError, match="it has 5 bytes, and at most 4 may be sent; send several"):
        event_bytes("abcd", "it", 4)
    with pytest.raises(UserCodeError, match="it is no plain data"):
        event_bytes(object(), "it", 100)
