"""Codes of messages: what they notice, and which algorithm both ends take."""

from __future__ import annotations

import pytest

from snapline.errors import PeerError
from snapline.runtime.wire.seals import TAG_BYTES, Mac, Seals, best

PARTS = [b"header", b"body" * 1000, b"x"]


@pytest.fixture(params=list(Mac), ids=lambda mac: mac.name)
def ends(request: pytest.FixtureRequest) -> tuple[Seals, Seals]:
    first, second = b"1" * 32, b"2" * 32
    return Seals(request.param, first, second), Seals(request.param, second, first)


def test_what_arrives_as_it_was_sent_passes(ends: tuple[Seals, Seals]) -> None:
    ours, theirs = ends
    for part in PARTS * 2:
        tag = ours.tag(memoryview(part))
        assert len(tag) == TAG_BYTES
        theirs.check(bytearray(part), memoryview(tag))


def test_a_changed_part_or_tag_is_noticed(ends: tuple[Seals, Seals]) -> None:
    ours, theirs = ends
    tag = ours.tag(b"part")
    with pytest.raises(PeerError, match="changed, repeated or left out"):
        theirs.check(b"parT", tag)
    tag = ours.tag(b"part")
    with pytest.raises(PeerError):
        theirs.check(b"part", tag[:-1] + bytes([tag[-1] ^ 1]))


def test_a_repeated_part_is_noticed(ends: tuple[Seals, Seals]) -> None:
    ours, theirs = ends
    tag = ours.tag(b"part")
    theirs.check(b"part", tag)
    with pytest.raises(PeerError):
        theirs.check(b"part", tag)


def test_a_part_that_was_left_out_is_noticed_at_the_next(ends: tuple[Seals, Seals]) -> None:
    ours, theirs = ends
    ours.tag(b"part")
    with pytest.raises(PeerError):
        theirs.check(b"part", ours.tag(b"part"))


def test_a_part_that_is_sent_back_is_noticed(ends: tuple[Seals, Seals]) -> None:
    ours, _ = ends
    with pytest.raises(PeerError):
        ours.check(b"part", ours.tag(b"part"))


def test_both_ends_take_the_fastest_algorithm_they_share() -> None:
    every = Mac.HMAC_SHA256 | Mac.AES_GMAC
    assert best(every, every) is Mac.AES_GMAC
    assert best(every, Mac.HMAC_SHA256) is best(Mac.HMAC_SHA256, every) is Mac.HMAC_SHA256
    assert best(every | 128, every) is Mac.AES_GMAC, "a newer version may know more"
    with pytest.raises(PeerError, match="no algorithm"):
        best(128, every)
