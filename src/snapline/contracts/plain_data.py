"""Data that travels and is kept in checkpoints: plain values as msgpack, rows as Arrow streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.text import explanation


def plain_data(items: Sequence[Any], what: str) -> list[Any]:
    """The items as whoever restores them sees them. Raises `UserCodeError`, which calls them `what`."""
    try:
        plain: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(list(items)))
    except (TypeError, msgspec.MsgspecError, OverflowError) as error:
        raise UserCodeError(
            f"{what} is no plain data: {explanation(error)}; use numbers, text, bytes, lists and dicts with text keys"
        ) from error
    return plain


def stream_bytes(table: pa.Table) -> bytes:
    """The rows as an Arrow IPC stream, without what is behind slices."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
