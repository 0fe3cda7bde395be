"""One connection between two slots in one attempt: many channels, both directions."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from snapline.errors import PeerError
from snapline.runtime.network import item_codec as codec
from snapline.runtime.network.channels import RemoteChannel, RemoteInput
from snapline.runtime.network.heartbeat import HeartbeatSettings, keep_alive
from snapline.runtime.network.item_codec import ChannelKey
from snapline.runtime.wire.channel_items import ItemKind

SOCKET_BUFFER_BYTES = 1024 * 1024
_SMALL_BODY_BYTES = 64 * 1024
"""Limit for the body of any frame that is not data."""
_DIRECT_FRAMES = 8
"""A caller's thread sends at most this many frames before it hands over to the writer."""
_MAX_READ_BYTES = 1024 * 1024
"""The most that one call reads, so that a large frame on a slow connection counts as a sign of life all along."""
_JOIN_TIMEOUT_S = 5.0


class DataConnection:
    """One thread reads, one writes; channels take turns. Calls `lost` once if it breaks before they have all ended."""

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        outputs: Iterable[RemoteChannel],
        inputs: Iterable[RemoteInput],
        lost: Callable[[str], None],
        heartbeat: HeartbeatSettings,
    ) -> None:
        sock.settimeout(None)
        # The first read reports a peer that is gone already.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
            keep_alive(sock, heartbeat.timeout_ms)
        self._sock = sock
        self._outputs = {channel.key: channel for channel in outputs}
        self._inputs = {channel.key: channel for channel in inputs}
        self._open = {("out", key) for key in self._outputs} | {("in", key) for key in self._inputs}
        self._lost = lost
        lock = threading.Lock()
        self._condition = threading.Condition(lock)
        # Separate, so that giving up the right to write does not wake the writer thread each time.
        self._nobody_writes = threading.Condition(lock)
        self._ready: deque[RemoteChannel] = deque()
        self._replies: deque[bytes] = deque()
        self._rest: list[memoryview] = []
        self._is_writing = False
        self._is_handed_over = False
        self._is_ending = False
        self._is_heard = False
        self._threads = [
            threading.Thread(target=self._read_all, name=f"{name}-reader", daemon=True),
            threading.Thread(target=self._write_all, name=f"{name}-writer", daemon=True),
        ]

    def start(self) -> None:
        for input_channel in self._inputs.values():
            input_channel.link = self
        for thread in self._threads:
            thread.start()
        for channel in self._outputs.values():
            channel.attach(self)

    def stop(self) -> None:
        """End the connection without waiting for its threads; reports nothing."""
        with self._condition:
            self._is_ending = True
            self._condition.notify_all()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait for the threads of a stopped connection."""
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(_JOIN_TIMEOUT_S)
        with self._nobody_writes:
            self._nobody_writes.wait_for(lambda: not self._is_writing, _JOIN_TIMEOUT_S)
        self._sock.close()

    # For the channels.

    def schedule(self, channel: RemoteChannel) -> None:
        with self._condition:
            if self._is_ending:
                return
            self._ready.append(channel)
            if not self._may_write():
                return
        self._write_directly()

    def give_credit(self, key: ChannelKey, size: int) -> None:
        self._reply(codec.encode_credit(key, size))

    def tell_end_read(self, key: ChannelKey) -> None:
        self._reply(codec.encode_end_read(key))

    def _reply(self, frame: bytes) -> None:
        with self._condition:
            if self._is_ending:
                return
            self._replies.append(frame)
            if not self._may_write():
                return
        self._write_directly()

    # For its heartbeat.

    @property
    def is_ending(self) -> bool:
        return self._is_ending

    def take_heard(self) -> bool:
        is_heard, self._is_heard = self._is_heard, False
        return is_heard

    def send_heartbeat(self) -> None:
        """Says nothing if something else waits to be sent."""
        if not self._replies and not self._ready:
            self._reply(codec.encode_heartbeat())

    def give_up(self, reason: str) -> None:
        self._fail(PeerError(reason))

    # Writing: one thread at a time.

    def _may_write(self) -> bool:
        """Claim the right to write if it is free; its current holder sees what was added. Called with the lock."""
        if self._is_writing:
            return False
        self._is_writing = True
        return True

    def _write_directly(self) -> None:
        """Send what fits the socket buffer and leave the rest to the writer; cheaper than waking it each time."""
        try:
            for _ in range(_DIRECT_FRAMES):
                frame = self._next_frame()
                if frame is None:
                    return
                rest = _send(self._sock, frame, socket.MSG_DONTWAIT)
                if rest:
                    break
            else:
                rest = []
            with self._condition:
                if self._is_ending:  # the writer's thread may be gone already
                    self._is_writing = False
                    self._nobody_writes.notify_all()
                    return
                self._rest = rest
                self._is_handed_over = True
                self._condition.notify_all()
        except Exception as error:
            self._fail(error)
            self._stop_writing()

    def _write_all(self) -> None:
        """Body of the writer thread: continues where a caller's thread would block."""
        try:
            while (frame := self._handed_over()) is not None:
                while frame is not None:
                    while frame:
                        frame = _send(self._sock, frame, 0)
                    frame = self._next_frame()
        except Exception as error:
            self._fail(error)
            self._stop_writing()

    def _handed_over(self) -> list[memoryview] | None:
        """Wait for the right to write and the rest of a frame. Returns None once the connection ends."""
        with self._condition:
            while not self._is_handed_over and not self._is_ending:
                self._condition.wait()
            if self._is_handed_over and self._is_ending:
                self._is_writing = False
                self._nobody_writes.notify_all()
            self._is_handed_over = False
            return None if self._is_ending else self._rest

    def _stop_writing(self) -> None:
        with self._condition:
            self._is_writing = False
            self._nobody_writes.notify_all()

    def _next_frame(self) -> list[memoryview] | None:
        """The next frame, replies first, then channels in turn; None gives up the right to write."""
        while True:
            with self._condition:
                if self._is_ending or not (self._replies or self._ready):
                    self._is_writing = False
                    if self._is_ending:
                        self._nobody_writes.notify_all()
                    return None
                if self._replies:
                    replies = b"".join(self._replies)
                    self._replies.clear()
                    return [memoryview(replies)]
                channel = self._ready.popleft()
            item = channel.take()
            if item is None:
                continue
            if item.kind is ItemKind.END_OF_PARTITION:
                self._ended("out", channel.key)
            frame = codec.encode(channel.key, item, with_dictionaries=channel.has_dictionary)
            with self._condition:
                self._ready.append(channel)
            return [memoryview(buffer) for buffer in frame]

    # Reading.

    def _read_all(self) -> None:
        try:
            header = memoryview(bytearray(codec.HEADER_BYTES))
            while self._fill(header, may_end=True):
                self._read_frame(codec.decode_header(header))
            if not self._is_ending:
                with self._condition:
                    is_done = not self._open
                if not is_done:
                    raise PeerError("the other end closed the connection")
        except Exception as error:
            self._fail(error)

    def _read_frame(self, header: codec.Header) -> None:
        body: Any = b""
        if header.kind <= ItemKind.FILTERED_DATA:
            body = pa.allocate_buffer(header.length)
            self._fill(memoryview(body))
        elif header.length > _SMALL_BODY_BYTES:
            raise PeerError(f"a frame of the kind {header.kind} with {header.length} bytes")
        elif header.length:
            body = bytearray(header.length)
            self._fill(memoryview(body))
        if header.kind >= codec.CREDIT:
            if header.kind != codec.HEARTBEAT:
                self._answered(header, body)
            return
        channel = self._inputs.get(header.key)
        if channel is None:
            raise PeerError(f"a frame for {header.key}, which is no channel of this connection")
        item = codec.decode(header, body, channel.schema)
        if item.kind is ItemKind.END_OF_PARTITION:
            self._ended("in", header.key)
        channel.receiver.arrive(channel.channel_index, item)

    def _answered(self, header: codec.Header, body: bytes) -> None:
        channel = self._outputs.get(header.key)
        if channel is None:
            raise PeerError(f"an answer for {header.key}, which is no channel of this connection")
        if header.kind == codec.CREDIT:
            channel.add_credit(codec.decode_number(body))
        else:
            channel.end_was_read()

    def _fill(self, view: memoryview, *, may_end: bool = False) -> bool:
        """Read until the view is full. Returns False if `may_end` and the connection ended before the first byte."""
        position, size = 0, len(view)
        while position < size:
            count = self._sock.recv_into(view[position : position + _MAX_READ_BYTES], 0, socket.MSG_WAITALL)
            self._is_heard = True
            if not count:
                if may_end and not position:
                    return False
                raise PeerError("the other end closed the connection in the middle of a frame")
            position += count
        return True

    # Ending.

    def _ended(self, side: str, key: ChannelKey) -> None:
        with self._condition:
            self._open.discard((side, key))

    def _fail(self, error: Exception) -> None:
        """End a broken connection and report it once."""
        with self._condition:
            if self._is_ending:
                return
            self._is_ending = True
            is_missed = bool(self._open)
            open_inputs = [self._inputs[key] for side, key in self._open if side == "in"]
            self._condition.notify_all()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if not is_missed and isinstance(error, OSError | PeerError):
            return
        reason = str(error) if isinstance(error, OSError | PeerError) else f"{type(error).__name__}: {error}"
        for receiver in {id(channel.receiver): channel.receiver for channel in open_inputs}.values():
            receiver.connection_lost(reason)
        self._lost(reason)


def _send(sock: socket.socket, views: list[memoryview], flags: int) -> list[memoryview]:
    """Send buffers without joining them first. Returns what is left to send."""
    try:
        sent = sock.sendmsg(views, (), flags)
    except BlockingIOError:
        return views
    for position, view in enumerate(views):
        if sent < view.nbytes:
            return [view[sent:], *views[position + 1 :]]
        sent -= view.nbytes
    return []
