"""The rows that all systems work on, the names of the functions, and what these must emit.

A row is a payment: its number, card, time, amount, shop and country, all whole numbers. Row n is the same in Python, in
numpy and in SQL. Only the standard library may be imported here: peers' interpreters read this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.peers.checking import digest

CARDS = 10_000
COLUMNS = ("n", "card", "time", "amount", "shop", "country")
FUNCTIONS = ("count", "sessions", "fraud", "topk")
RESULT = ("card", "a", "b")
"""What every function emits: the card and two whole numbers."""

STEP_MS = 12
"""Time between two payments: a card has one about every two minutes."""
GAP_MS = 60_000
"""A session ends after so long without a payment."""
KEEP_MS = 600_000
"""How long the fraud detector remembers a payment."""
SHOPS = 20
TOP = 10
MUCH = 4_000
LARGE = 900

_WORD = 1 << 32

Row = tuple[int, int, int, int, int, int]


def columns(n: Any, cards: int = CARDS) -> tuple[Any, ...]:
    """The columns of row n: an int, an array of int64, or an `arithmetic.Sql`."""
    mixed = n * 2_654_435_761 % _WORD // 16 * 2_246_822_519 % _WORD // 64
    return (
        n,
        mixed % cards,
        n * STEP_MS,
        n * 40_503 % 65_537 % 1000,
        n * 7_919 % 10_007 % SHOPS,
        n * 104_729 % 101 // 93,
    )


def check(rows: list[tuple[Any, ...]]) -> dict[str, int]:
    """Checksum of emitted rows, in any order."""
    return {"rows": len(rows), "digest": digest([tuple(map(int, row)) for row in rows])}


def expected(function: str, events: int, cards: int) -> dict[str, int]:
    """The checksum of what a function emits, computed with plain dicts."""
    made = {"count": _count, "sessions": _sessions, "fraud": _fraud, "topk": _topk}[function]
    return check(list(made(columns(n, cards) for n in range(events))))


def _count(rows: Iterator[Row]) -> Iterator[tuple[int, int, int]]:
    totals: dict[int, tuple[int, int]] = {}
    for _, card, _, amount, _, _ in rows:
        count, total = totals.get(card, (0, 0))
        totals[card] = count + 1, total + amount
        yield card, *totals[card]


def _sessions(rows: Iterator[Row]) -> Iterator[tuple[int, int, int]]:
    open_sessions: dict[int, tuple[int, int, int]] = {}
    for _, card, time_ms, *_ in rows:
        start, last, count = open_sessions.get(card, (time_ms, time_ms, 0))
        if time_ms - last > GAP_MS:
            yield card, start, count
            start, count = time_ms, 0
        open_sessions[card] = start, time_ms, count + 1
    for card, (start, _, count) in open_sessions.items():
        yield card, start, count


def _fraud(rows: Iterator[Row]) -> Iterator[tuple[int, int, int]]:
    recent: dict[int, dict[int, tuple[int, int]]] = {}
    shops: dict[tuple[int, int], int] = {}
    homes: dict[int, int] = {}
    for n, card, time_ms, amount, shop, country in rows:
        mine = {at: item for at, item in recent.get(card, {}).items() if at > time_ms - KEEP_MS}
        spent = amount + sum(other for other, _ in mine.values())
        places = {country, *(other for _, other in mine.values())}
        seen = shops.get((card, shop), 0)
        home = homes.setdefault(card, country)
        if (spent > MUCH and seen == 0) or (amount > LARGE and country != home and len(places) > 1):
            yield card, n, spent
        recent[card] = {**mine, time_ms: (amount, country)}
        shops[card, shop] = seen + 1


def _topk(rows: Iterator[Row]) -> Iterator[tuple[int, int, int]]:
    best: dict[int, list[int]] = {}
    for n, card, _, amount, *_ in rows:
        mine = best.setdefault(card, [])
        if len(mine) < TOP or amount > mine[-1]:
            mine.append(amount)
            mine.sort(reverse=True)
            del mine[TOP:]
            yield card, n, sum(mine)
