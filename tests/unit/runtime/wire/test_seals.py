"""Seals of messages: what they notice and hide, and which algorithm both ends take."""

from __future__ import annotations

import pytest

from snapline.errors import PeerError
from snapline.runtime.wire.seals import TAG_BYTES, Mac, Seals, best

PARTS = [b"header", b"body" * 1000, b"x"]


@pytest.fixture(params=[*Mac, "secret"], ids=str)
def ends(request: pytest.FixtureRequest) -> tuple[Seals, Seals]:
    first, second = b"1" * 32, b"2" * 32
    if request.param == "secret":
        mac, is_secret = Mac.AES_GMAC, True
    else:
        mac, is_secret = request.param, False
    return Seals(mac, first, second, is_secret=is_secret), Seals(mac, second, first, is_secret=is_secret)


def sealed(seals: Seals, part: bytes) -> memoryview:
    return memoryview(b"".join(seals.seal(memoryview(part))))


def test_what_arrives_as_it_was_sent_passes(ends: tuple[Seals, Seals]) -> None:
    ours, theirs = ends
    for part in PARTS * 2:
        data = sealed(ours, part)
        assert len(data) == len(part) + TAG_BYTES
        assert theirs.open(data) == part


def test_secret_parts_cannot_be_read_and_equal_ones_look_different() -> None:
    ours = Seals(Mac.AES_GMAC, b"1" * 32, b"2" * 32, is_secret=True)
    first, second = bytes(sealed(ours, b"a secret")), bytes(sealed(ours, b"a secret"))
    assert b"secret" not in first
    assert first != second


@pytest.mark.parametrize("position", [0, 3, -TAG_BYTES, -1])
def test_a_changed_part_or_tag_is_noticed(ends: tuple[Seals, Seals], position: int) -> None:
    ours, theirs = ends
    data = bytearray(sealed(ours, b"part"))
    data[position] ^= 1
    with pytest.raises(PeerError, match="changed, repeated or left out"):
        theirs.open(memoryview(data))


def test_a_repeated_part_is_noticed(ends: tuple[Seals, Seals]) -> None:
    ours, theirs = ends
    data = sealed(ours, b"part")
    assert theirs.open(data) == b"part"
    with pytest.raises(PeerError):
        theirs.open(data)


def test_a_part_that_was_left_out_is_noticed_at_the_next(ends: tuple[Seals, Seals]) -> None:
    ours, theirs = ends
    sealed(ours, b"part")
    with pytest.raises(PeerError):
        theirs.open(sealed(ours, b"part"))


def test_a_part_that_is_sent_back_is_noticed(ends: tuple[Seals, Seals]) -> None:
    ours, _ = ends
    with pytest.raises(PeerError):
        ours.open(sealed(ours, b"part"))


def test_both_ends_take_the_fastest_algorithm_they_share() -> None:
    every = Mac.HMAC_SHA256 | Mac.AES_GMAC
    assert best(every, every) is Mac.AES_GMAC
    assert best(every, Mac.HMAC_SHA256) is best(Mac.HMAC_SHA256, every) is Mac.HMAC_SHA256
    assert best(every | 128, every) is Mac.AES_GMAC, "a newer version may know more"
    with pytest.raises(PeerError, match="no algorithm"):
        best(128, every)
