"""A man in the middle of a data connection: what he can read, and that whatever he changes is noticed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from tests.integration.relay_kit import TO_CLIENT, TO_SERVER, Change, Relay, flip
from tests.integration.test_exchange import SCHEMA, Task, eventually

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.network import item_codec as codec
from snapline.runtime.network.channels import OutputChannel
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.heartbeat import HeartbeatSettings
from snapline.runtime.network.item_codec import ChannelKey
from snapline.runtime.wire import auth
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.seals import Mac

PROTECTED = [Encryption.MAC, Encryption.TLS]
ROWS = 5


def make_exchange(slot: int, credentials: Credentials, slots: int = 2) -> Exchange:
    return Exchange(
        "127.0.0.1",
        credentials,
        slot=slot,
        slots=slots,
        batch_size_bytes=1024,
        flush_timeout_ms=0,
        channel_memory_bytes=1 << 20,
        heartbeat=HeartbeatSettings(1000, 10_000),
    )


class Conversation:
    """Slot 0 sends to slot 1 through a relay, and gets credit back."""

    def __init__(self, encryption: Encryption, change: Change | None = None) -> None:
        credentials = new_credentials(encryption)
        self.exchanges = [make_exchange(slot, credentials) for slot in range(2)]
        self.relay = Relay(self.exchanges[1].address, change)
        self.lost: list[str] = []
        self.receiver = Task()
        self.sent = 0
        self.output: OutputChannel

    def connect(self) -> None:
        peers = [self.exchanges[0].address, self.relay.address]
        first, second = (exchange.begin(1, peers, self._note) for exchange in self.exchanges)
        self.output = first.output(0, SCHEMA, 0, 1, 1, Task(), may_be_unaligned=True)
        self.receiver.inputs[0] = second.input(0, SCHEMA, 0, 1, 0, self.receiver, 0)
        second._is_open = True  # it accepts connections, and nobody has to wait for them here
        first.connect(5)

    def send(self, rows: int = ROWS) -> None:
        numbers = list(range(self.sent, self.sent + rows))
        self.output.send(data_item(pa.record_batch([numbers, [f"row {number}" for number in numbers]], SCHEMA)))
        self.sent += rows

    def send_until_noticed(self, what: str = "it") -> None:
        deadline = time.monotonic() + 120
        while not self.noticed:
            assert time.monotonic() < deadline, f"{what} was not noticed"
            self.send()
            time.sleep(0.001)

    @property
    def noticed(self) -> bool:
        return bool(self.lost or self.exchanges[1].refusals.total)

    def close(self) -> None:
        self.relay.close()
        for exchange in self.exchanges:
            exchange.close()

    def _note(self, slot: int, reason: str) -> None:
        self.lost.append(reason)


@contextlib.contextmanager
def conversation(encryption: Encryption, change: Change | None = None) -> Iterator[Conversation]:
    made = Conversation(encryption, change)
    try:
        yield made
    finally:
        made.close()


def undisturbed(encryption: Encryption) -> tuple[bytes, bytes]:
    """What passes in either direction until four batches have arrived and their credit has come back."""
    with conversation(encryption) as talk:
        talk.connect()
        for _ in range(4):
            talk.send()
            eventually(lambda: len(talk.receiver.numbers()) == talk.sent)
        assert talk.receiver.numbers() == list(range(talk.sent))
        assert not talk.noticed
        return bytes(talk.relay.passed[TO_SERVER]), bytes(talk.relay.passed[TO_CLIENT])


@pytest.mark.parametrize("encryption", Encryption)
def test_only_with_tls_can_nothing_be_read(encryption: Encryption) -> None:
    to_server, _ = undisturbed(encryption)
    assert (b"row 7" in to_server) is (encryption is not Encryption.TLS)


@pytest.mark.parametrize("encryption", [*Encryption, "tls without cryptography"])
def test_batches_larger_than_any_buffer_arrive(encryption: Encryption | str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not isinstance(encryption, Encryption):
        monkeypatch.setattr(auth, "KNOWN", int(Mac.HMAC_SHA256))
        encryption = Encryption.TLS
    with conversation(encryption) as talk:
        talk.connect()
        for _ in range(5):
            talk.send(150_000)
            eventually(lambda: len(talk.receiver.numbers()) == talk.sent)
        assert talk.receiver.numbers() == list(range(talk.sent))
        passed = bytes(talk.relay.passed[TO_SERVER])
        assert len(passed) > 5 * 3_000_000
        assert (b"row 700007" in passed) is (encryption is not Encryption.TLS)
        assert not talk.noticed


@pytest.mark.slow
@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT])
@pytest.mark.parametrize("encryption", PROTECTED)
def test_wherever_a_bit_is_changed_it_is_noticed_and_nothing_wrong_arrives(
    encryption: Encryption, direction: int
) -> None:
    length = len(undisturbed(encryption)[direction])
    for position in range(0, length, 31):
        with conversation(encryption, flip(direction, position)) as talk:
            with contextlib.suppress(PeerError):
                talk.connect()
                talk.send_until_noticed(f"the change of byte {position} of {length}")
            numbers = talk.receiver.numbers()
            assert numbers == list(range(len(numbers))), f"byte {position}"
            assert talk.receiver.kinds() == [ItemKind.DATA] * len(talk.receiver.kinds())


def injected() -> bytes:
    """A watermark that ends all windows."""
    return b"".join(codec.encode(ChannelKey(0, 0, 1), Item(ItemKind.WATERMARK, 1 << 60)))


@pytest.mark.parametrize("encryption", Encryption)
def test_a_message_that_somebody_else_adds_never_arrives(encryption: Encryption) -> None:
    is_armed = False

    def add(direction: int, offset: int, data: bytes) -> bytes:
        return data + injected() if is_armed and direction == TO_SERVER else data

    with conversation(encryption, add) as talk:
        talk.connect()
        talk.send()
        eventually(lambda: talk.receiver.numbers() == list(range(ROWS)))
        is_armed = True
        talk.send()
        if encryption is Encryption.NONE:
            # The attack works, so this test would notice if it worked elsewhere.
            eventually(lambda: ItemKind.WATERMARK in talk.receiver.kinds())
            return
        talk.send_until_noticed()
        assert set(talk.receiver.kinds()) == {ItemKind.DATA}
        assert any("changed" in reason or "closed" in reason for reason in talk.lost)


@pytest.mark.parametrize("encryption", PROTECTED)
@pytest.mark.parametrize("is_repeated", [True, False])
def test_messages_are_neither_repeated_nor_left_out(encryption: Encryption, is_repeated: bool) -> None:
    is_armed = False

    def change(direction: int, offset: int, data: bytes) -> bytes:
        nonlocal is_armed
        if direction == TO_SERVER and is_armed:
            is_armed = False
            return data * 2 if is_repeated else b""
        return data

    with conversation(encryption, change) as talk:
        talk.connect()
        talk.send()
        eventually(lambda: talk.receiver.numbers() == list(range(ROWS)))
        is_armed = True
        talk.send()
        eventually(lambda: not is_armed)
        talk.send_until_noticed()
        numbers = talk.receiver.numbers()
        assert all(second == first + 1 for first, second in pairwise(numbers))


@pytest.mark.parametrize("encryption", Encryption)
def test_a_connection_cannot_be_led_to_another_slot(encryption: Encryption) -> None:
    credentials = new_credentials(encryption)
    exchanges = [make_exchange(slot, credentials, 3) for slot in range(3)]
    try:
        with Relay(exchanges[2].address) as relay:
            peers = [exchanges[0].address, relay.address, exchanges[2].address]
            wirings = [exchange.begin(1, peers, lambda slot, error: None) for exchange in exchanges]
            wirings[0].output(0, SCHEMA, 0, 1, 1, Task(), may_be_unaligned=True)
            with pytest.raises(PeerError, match="refused the connection"):
                wirings[0].connect(5)
            assert exchanges[2].refusals.total == 1
    finally:
        for exchange in exchanges:
            exchange.close()
