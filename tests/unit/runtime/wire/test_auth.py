"""What both ends of a fresh connection prove to each other."""

from __future__ import annotations

import logging

import pytest

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.wire import auth
from snapline.runtime.wire.auth import ClientHandshake, Refusals, Route, ServerHandshake
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.seals import Mac, Seals

CREDENTIALS = Credentials(b"s" * 32, Encryption.MAC)
STRANGE = Credentials(b"other", Encryption.MAC)
ROUTE = Route("data", 3, 1, 2)


def hello(credentials: Credentials = CREDENTIALS, route: Route = ROUTE) -> bytes:
    return ClientHandshake(credentials, route).hello


def server(credentials: Credentials = CREDENTIALS) -> ServerHandshake:
    return ServerHandshake(credentials, ("data", "probe"))


def handshake(credentials: Credentials, route: Route) -> tuple[Seals | None, Seals | None]:
    """The seals that both ends come to."""
    client, accepting = ClientHandshake(credentials, route), server(credentials)
    proof = client.receive(accepting.receive(client.hello))
    assert accepting.needs == len(proof)
    assert accepting.receive(proof) == b""
    assert not accepting.needs
    assert accepting.route == route
    return client.seals, accepting.seals


@pytest.mark.parametrize("encryption", [Encryption.MAC, Encryption.TLS])
def test_both_ends_trust_each_other_and_agree_on_seals(encryption: Encryption) -> None:
    ours, theirs = handshake(Credentials(b"s" * 32, encryption), ROUTE)
    assert ours is not None
    assert theirs is not None
    sent = b"".join(ours.seal(b"there"))
    assert (b"there" in sent) is (encryption is Encryption.MAC)
    assert theirs.open(memoryview(sent)) == b"there"
    assert ours.open(memoryview(b"".join(theirs.seal(b"back")))) == b"back"


def test_without_protection_there_are_no_seals() -> None:
    assert handshake(Credentials(b"s" * 32, Encryption.NONE), ROUTE) == (None, None)


def test_tls_stays_where_no_data_flows_or_an_end_lacks_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = Credentials(b"s" * 32, Encryption.TLS)
    assert handshake(credentials, ROUTE._replace(purpose="probe")) == (None, None)
    monkeypatch.setattr(auth, "KNOWN", int(Mac.HMAC_SHA256))  # of the client: what the server knows is fixed
    assert handshake(credentials, ROUTE) == (None, None)


def test_a_client_that_cannot_prove_itself_is_refused() -> None:
    client, accepting = ClientHandshake(STRANGE, ROUTE), server()
    answer = accepting.receive(client.hello)
    with pytest.raises(PeerError, match="does not know the secret"):
        client.receive(answer)
    with pytest.raises(PeerError, match="does not know the secret"):
        accepting.receive(b"\0" * accepting.needs)


def test_a_proof_of_one_role_or_connection_serves_no_other() -> None:
    first, second = server(), server()
    client = ClientHandshake(CREDENTIALS, ROUTE)
    answer = first.receive(client.hello)
    second.receive(client.hello)
    proof = client.receive(answer)
    with pytest.raises(PeerError):
        second.receive(proof)
    with pytest.raises(PeerError):
        first.receive(answer[-32:])


@pytest.mark.parametrize("position", range(6, len(hello())))
def test_whatever_is_changed_in_a_hello_nobody_is_trusted(position: int) -> None:
    """The algorithms, the purpose, the attempt, either slot, the nonce."""
    client, accepting = ClientHandshake(CREDENTIALS, ROUTE), server()
    changed = bytearray(client.hello)
    changed[position] ^= 1
    try:
        answer = accepting.receive(bytes(changed))
    except PeerError:
        return  # refused at once: no such purpose, or no algorithm is left
    with pytest.raises(PeerError, match="does not know the secret"):
        client.receive(answer)


@pytest.mark.parametrize("position", range(ClientHandshake.needs))
def test_whatever_is_changed_in_the_answer_the_server_is_not_trusted(position: int) -> None:
    client = ClientHandshake(CREDENTIALS, ROUTE)
    answer = bytearray(server().receive(client.hello))
    answer[position] ^= 1
    with pytest.raises(PeerError, match="does not know the secret"):
        client.receive(bytes(answer))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"G" * len(hello()), "not a Snapline process"),
        (b"SNAP\x63" + b"\0" * (len(hello()) - 5), "version 99"),
        (hello(route=Route("control", 0, 0, 0)), "unknown connection purpose"),
        (hello(Credentials(CREDENTIALS.secret, Encryption.NONE)), "does not protect its messages as this job does"),
    ],
    ids=["garbage", "version", "purpose", "protection"],
)
def test_garbage_other_versions_purposes_and_protections_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        server().receive(data)


@pytest.mark.parametrize("purpose", ["", "x" * 17])
def test_a_purpose_has_a_limited_length(purpose: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        hello(route=Route(purpose, 0, 0, 0))


def test_refusals_are_logged_once_per_address(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals("the port", limit=2)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            refusals.refused("10.0.0.1", "garbage")
        refusals.refused("10.0.0.2", "silence")
        assert len(caplog.records) == 2
        assert refusals.count("10.0.0.1") == 5
        refusals.refused("10.0.0.3", "silence")
    assert refusals.total == 7
    assert refusals.count("10.0.0.1") == 0, "no more addresses are remembered than the limit"
