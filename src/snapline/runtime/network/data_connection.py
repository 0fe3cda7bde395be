"""One connection between two slots in one attempt: many channels, both directions."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from snapline.errors import PeerError
from snapline.runtime.network import item_codec as codec
from snapline.runtime.network.channels import RemoteChannel, RemoteInput
from snapline.runtime.network.frame_reader import FrameReader
from snapline.runtime.network.heartbeat import HeartbeatSettings, keep_alive
from snapline.runtime.network.item_codec import ChannelKey
from snapline.runtime.network.poller import Poller
from snapline.runtime.wire.channel_items import ItemKind
from snapline.runtime.wire.secured_socket import SecuredSocket

_FRAMES_AT_ONCE = 8
"""A thread sends at most this many frames before it leaves the rest to the poller, whose turn it ends too."""
_READS_AT_ONCE = 8
"""The poller reads at most this often before it turns to the other connections."""
_WRITER_TIMEOUT_S = 5.0


class DataConnection:
    """Channels take turns on a socket. Calls `lost` once if it breaks before they have all ended.

    The thread that has something to send writes it, one thread at a time. Where that would block, the poller's thread
    goes on, which does all the reading.
    """

    def __init__(
        self,
        secured: SecuredSocket,
        poller: Poller,
        outputs: Iterable[RemoteChannel],
        inputs: Iterable[RemoteInput],
        lost: Callable[[str], None],
        heartbeat: HeartbeatSettings,
    ) -> None:
        sock = secured.socket
        sock.setblocking(False)
        # The first read reports a peer that is gone already.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(sock, heartbeat.timeout_ms)
        self._secured = secured
        self._descriptor = sock.fileno()
        self._poller = poller
        self._reader = FrameReader(secured)
        self._outputs = {channel.key: channel for channel in outputs}
        self._inputs = {channel.key: channel for channel in inputs}
        self._open = {("out", key) for key in self._outputs} | {("in", key) for key in self._inputs}
        self._lost = lost
        self._lock = threading.Lock()
        self._nobody_writes = threading.Condition(self._lock)
        self._ready: deque[RemoteChannel] = deque()
        self._replies: list[bytes] = []
        self._rest: list[memoryview] = []
        self._is_writing = False
        self._is_left_to_poller = False
        self._wants_room = False
        self._is_ending = False
        self._is_heard = False
        self._unread_bytes = 0

    def start(self) -> None:
        for input_channel in self._inputs.values():
            input_channel.link = self
        self._poller.add(self._descriptor, self)
        for channel in self._outputs.values():
            channel.attach(self)

    def stop(self) -> None:
        """End the connection without waiting for threads that use it; reports nothing."""
        with self._lock:
            self._end()
        self._secured.shutdown()

    def join(self) -> None:
        """Wait until no thread uses a stopped connection, and close it."""
        self._poller.wait_for_call()
        with self._nobody_writes:
            self._nobody_writes.wait_for(lambda: not self._is_writing or self._is_left_to_poller, _WRITER_TIMEOUT_S)
        self._secured.close()

    def _end(self) -> None:
        """Called with the lock."""
        if not self._is_ending:
            self._is_ending = True
            self._poller.discard(self._descriptor)

    # For the channels.

    def schedule(self, channel: RemoteChannel) -> None:
        with self._lock:
            if self._is_ending:
                return
            self._ready.append(channel)
            if not self._may_write():
                return
        self._write([])

    def give_credit(self, key: ChannelKey, size: int) -> None:
        self._reply(codec.encode_credit(key, size))

    def tell_end_read(self, key: ChannelKey) -> None:
        self._reply(codec.encode_end_read(key))

    def _reply(self, frame: list[bytes]) -> None:
        with self._lock:
            if self._is_ending:
                return
            self._replies.extend(frame)
            if not self._may_write():
                return
        self._write([])

    # For its heartbeat.

    @property
    def is_ending(self) -> bool:
        return self._is_ending

    def take_heard(self) -> bool:
        with self._lock:
            if self._is_ending:
                return False
            # Part of a large body is left unread until more of it is there.
            before, self._unread_bytes = self._unread_bytes, self._secured.unread_bytes
            is_heard, self._is_heard = self._is_heard or self._unread_bytes != before, False
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

    def writable(self) -> None:
        with self._lock:
            if self._is_ending or not self._is_left_to_poller:
                return
            self._is_left_to_poller = False
            rest, self._rest = self._rest, []
        self._write(rest)

    def _write(self, rest: list[memoryview]) -> None:
        """Send what fits the socket buffer, and leave the right to write to the poller if there is more."""
        try:
            for _ in range(_FRAMES_AT_ONCE):
                if not rest:
                    frame = self._next_frame()
                    if frame is None:
                        return
                    rest = frame
                rest = self._secured.send_some(rest)
                if rest:
                    break
            with self._lock:
                if self._is_ending:
                    self._give_up_writing()
                    return
                self._rest = rest
                self._is_left_to_poller = True
                if not self._wants_room:
                    self._wants_room = True
                    self._poller.want_room(self._descriptor, True)
        except Exception as error:
            self._fail(error)
            with self._lock:
                self._give_up_writing()

    def _give_up_writing(self) -> None:
        """Called with the lock: from here on another thread may write, and ask the poller again."""
        self._is_writing = False
        if self._is_ending:
            self._nobody_writes.notify_all()
        elif self._wants_room:
            self._wants_room = False
            self._poller.want_room(self._descriptor, False)

    def _next_frame(self) -> list[memoryview] | None:
        """The next frame, replies first, then channels in turn; None gives up the right to write."""
        while True:
            with self._lock:
                if self._is_ending or not (self._replies or self._ready):
                    self._give_up_writing()
                    return None
                replies, self._replies = self._replies, []
                if not replies:
                    channel = self._ready.popleft()
            if replies:
                return [memoryview(b"".join(self._secured.protected(replies)))]
            item = channel.take()
            if item is None:
                continue
            if item.kind is ItemKind.END_OF_PARTITION:
                self._ended("out", channel.key)
            frame = codec.encode(channel.key, item, with_dictionaries=channel.has_dictionary)
            with self._lock:
                self._ready.append(channel)
            return self._secured.protected(frame)

    # Reading, on the poller's thread.

    def readable(self) -> None:
        reader = self._reader
        self._is_heard = True
        try:
            reads, has_more = 0, True
            while has_more and (reads < _READS_AT_ONCE or self._secured.is_holding):
                has_more = reader.receive()
                while (frame := reader.next_frame()) is not None:
                    self._take(*frame)
                reads += 1
            self._secured.await_bytes(reader.missing_bytes)
            if reader.has_ended:
                with self._lock:
                    if not self._open:
                        self._end()
                        return
                raise PeerError("the other end closed the connection")
        except Exception as error:
            self._fail(error)

    def _take(self, header: codec.Header, body: Any) -> None:
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

    # Ending.

    def _ended(self, side: str, key: ChannelKey) -> None:
        with self._lock:
            self._open.discard((side, key))

    def _fail(self, error: Exception) -> None:
        """End a broken connection and report it once."""
        with self._lock:
            if self._is_ending:
                return
            self._end()
            is_missed = bool(self._open)
            open_inputs = [self._inputs[key] for side, key in self._open if side == "in"]
        self._secured.shutdown()
        if not is_missed and isinstance(error, OSError | PeerError):
            return
        reason = str(error) if isinstance(error, OSError | PeerError) else f"{type(error).__name__}: {error}"
        for receiver in {id(channel.receiver): channel.receiver for channel in open_inputs}.values():
            receiver.connection_lost(reason)
        self._lost(reason)
