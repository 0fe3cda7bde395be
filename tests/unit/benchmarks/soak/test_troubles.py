"""The order of troubles."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

from benchmarks.soak.hosts import Disk, plain_hosts
from benchmarks.soak.troubles import DRIVER, dealt, possible_troubles

KINDS = (DRIVER, "user", "hang", "link", "disk")


def test_every_kind_comes_once_a_round() -> None:
    deck = dealt(KINDS, random.Random(1))
    for _ in range(20):
        assert sorted(islice(deck, len(KINDS))) == sorted(KINDS)


def test_the_driver_is_the_first() -> None:
    assert {next(dealt(KINDS, random.Random(seed))) for seed in range(50)} == {DRIVER}


def test_the_seed_decides() -> None:
    def rounds(seed: int) -> list[str]:
        return list(islice(dealt(KINDS, random.Random(seed)), 40))

    assert rounds(3) == rounds(3)
    assert rounds(3) != rounds(4)


def test_what_the_machine_refuses_is_left_out() -> None:
    without = possible_troubles(plain_hosts(2, "no"), Disk(Path("/nowhere"), "no"))
    assert "link" not in without
    assert "disk" not in without
    assert "disk" in possible_troubles(plain_hosts(2, "no"), Disk(Path("/nowhere")))
