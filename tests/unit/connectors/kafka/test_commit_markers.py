from __future__ import annotations

from snapline.connectors.kafka.commit_markers import Marker, writer_and_place


def test_the_name_of_a_committable_tells_its_writer() -> None:
    assert writer_and_place("line/out/3/2/17/1") == ("line/out/3/2", (17, 1))
    assert writer_and_place("line/a/b/3/2/17/0") == ("line/a/b/3/2", (17, 0))


def test_a_writer_commits_in_order_so_one_place_says_it_all() -> None:
    marker = Marker().committed((3, 0), 1, in_order=True).committed((5, 1), 1, in_order=True)
    assert marker == Marker(1, (5, 1))
    assert marker.holds((4, 7))
    assert marker.holds((5, 1))
    assert not marker.holds((5, 2))


def test_what_others_commit_says_nothing_about_anything_earlier() -> None:
    marker = Marker(1, (3, 0)).committed((5, 0), 2, in_order=False)
    assert marker == Marker(2, (3, 0), ((5, 0),))
    assert marker.holds((5, 0))
    assert not marker.holds((4, 0))
    assert marker.newest_checkpoint == 5
    # The writer itself lives, and sees that 5 is done.
    assert marker.committed((4, 0), 2, in_order=True) == Marker(2, (4, 0), ((5, 0),))
    assert marker.committed((6, 0), 2, in_order=True) == Marker(2, (6, 0))


def test_a_claim_commits_nothing() -> None:
    marker = Marker().claimed(4)
    assert marker.attempt == 4
    assert not marker.holds((0, 0))
    assert marker.newest_checkpoint == -1
