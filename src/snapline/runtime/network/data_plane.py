"""The data plane of a slot, as the tasks of an attempt use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from snapline.runtime.network.channels import InputChannel, OutputChannel, Receiver, Sender

Lost: TypeAlias = Callable[[int, str], None]
"""Called once for each slot to which the connection broke while the attempt was on: its number, and the reason."""


class ChannelWiring(Protocol):
    """The channels of one attempt. First name them all by `output` and `input`, then `connect`."""

    def output(
        self,
        edge_index: int,
        schema: pa.Schema,
        upstream: int,
        downstream: int,
        target_slot: int,
        sender: Sender,
        *,
        may_be_unaligned: bool,
    ) -> OutputChannel:
        """Returns the sending end of the channel between two subtasks of an edge."""

    def input(
        self,
        edge_index: int,
        schema: pa.Schema,
        upstream: int,
        downstream: int,
        source_slot: int,
        receiver: Receiver,
        channel_index: int,
    ) -> InputChannel:
        """Returns the receiving end; `receiver` gets its items, with `channel_index`."""

    def connect(self, timeout_s: float) -> None:
        """Connect with all slots there are channels to or from. Blocks; raises `PeerError` if that fails."""

    def close(self) -> None:
        """End all channels and connections. Any thread, any number of times."""


class DataPlane(Protocol):
    """The data port of one process; serves one attempt after another. `address` is its host and port."""

    address: tuple[str, int]

    def begin(self, attempt: int, peers: Sequence[tuple[str, int]], lost: Lost) -> ChannelWiring:
        """Returns the channels of a new attempt, and closes those of the one before. `peers` are data ports by slot.

        Raises `FencedError` if the attempt is not newer.
        """

    def close(self) -> None:
        """Stop listening, and end the current attempt."""
