"""Cuts what arrives on a connection into frames."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from snapline.errors import PeerError
from snapline.runtime.network.item_codec import HEADER_BYTES, Header, decode_header
from snapline.runtime.wire.channel_items import ItemKind
from snapline.runtime.wire.secured_socket import SecuredSocket

_AHEAD_BYTES = 8 * 1024
"""Read together with the end of a body: usually several small frames, or the header of the next large one."""
_SMALL_BODY_BYTES = 64 * 1024
"""Limit for the body of any frame that is not data."""


class FrameReader:
    """Reads a non-blocking socket. The bodies of data are read in place: only their first bytes are copied."""

    def __init__(self, secured: SecuredSocket) -> None:
        self.has_ended = False
        """Whether the other side has closed the connection, after a whole frame."""
        self._secured = secured
        self._tag_bytes = secured.tag_bytes
        self._ahead = memoryview(bytearray(_AHEAD_BYTES))
        self._start = 0
        self._end = 0
        self._header: Header | None = None
        self._body: Any = b""
        self._missing: memoryview | None = None

    def receive(self) -> bool:
        """Read once. Returns whether more may have arrived. Raises `PeerError` at an end within a frame, or `OSError`.

        Call it once `next_frame` has returned None.
        """
        start, end = self._start, self._end
        if start:
            # No more than a part of a header.
            self._ahead[: end - start] = self._ahead[start:end]
            self._start, self._end = 0, end - start
        free = self._ahead[self._end :]
        missing = self._missing
        try:
            count = self._secured.receive_into([free] if missing is None else [missing, free])
        except BlockingIOError:
            return False
        if not count:
            if self._header is not None or self._end:
                raise PeerError("the other end closed the connection in the middle of a frame")
            self.has_ended = True
            return False
        room = free.nbytes
        is_full = count == room
        if missing is not None:
            is_full = count == room + missing.nbytes
            if count < missing.nbytes:
                self._missing = missing[count:]
                return False
            count -= missing.nbytes
            self._missing = None
        self._end += count
        return is_full

    @property
    def missing_bytes(self) -> int:
        """How much of a body that has begun is still to come."""
        return 0 if self._missing is None else self._missing.nbytes

    def next_frame(self) -> tuple[Header, Any] | None:
        """Returns header and body of the next frame, or None if it has not arrived whole."""
        header = self._header
        if header is None:
            end = self._start + HEADER_BYTES
            start = end + self._tag_bytes
            if start > self._end:
                return None
            sealed = self._ahead[self._start : start]
            header = decode_header(self._secured.open(sealed) if self._tag_bytes else sealed)
            if header.length:
                view = self._make_body(header)
                part = min(view.nbytes, self._end - start)
                view[:part] = self._ahead[start : start + part]
                start += part
                if part < view.nbytes:
                    self._missing = view[part:]
            self._start = start
            self._header = header
        if self._missing is not None:
            return None
        body = self._body
        self._header, self._body = None, b""
        if self._tag_bytes and header.length:
            body = self._secured.open(memoryview(body).cast("B"))
        return header, body

    def _make_body(self, header: Header) -> memoryview:
        """Make room for the body and its tag."""
        size = header.length + self._tag_bytes
        if header.kind <= ItemKind.FILTERED_DATA:
            self._body = pa.allocate_buffer(size)
        elif header.length <= _SMALL_BODY_BYTES:
            self._body = bytearray(size)
        else:
            raise PeerError(f"a frame of the kind {header.kind} with {header.length} bytes")
        return memoryview(self._body).cast("B")
