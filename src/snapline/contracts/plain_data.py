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
    plain: list[Any] = msgspec.msgpack.decode(plain_bytes(list(items), what))
    return plain


def plain_bytes(item: Any, what: str) -> bytes:
    """Plain data as it travels and is kept. Raises `UserCodeError`, which calls it `what`."""
    try:
        return msgspec.msgpack.encode(item)
    except (TypeError, msgspec.MsgspecError, OverflowError) as error:
        raise UserCodeError(
            f"{what} is no plain data: {explanation(error)}; use numbers, text, bytes, lists and dicts with text keys"
        ) from error


def event_bytes(event: Any, what: str, limit_bytes: int) -> bytes:
    """An event as it travels. Raises `UserCodeError` if it is no plain data, or larger than the limit."""
    data = plain_bytes(event, what)
    if len(data) > limit_bytes:
        raise UserCodeError(
            f"{what} has {len(data)} bytes, and at most {limit_bytes} may be sent; send several, or pass large data on "
            "as rows or files"
        )
    return data


def stream_bytes(table: pa.Table) -> bytes:
    """The rows as an Arrow IPC stream, without what is behind slices."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
