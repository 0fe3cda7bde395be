"""Checksums of results, to show that all peers computed the same. Only the standard library may be imported here."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.peers.nexmark_sql import ANSWER, TIMES

Row = Sequence[Any]


def last_rows(rows: Iterable[Row]) -> list[Row]:
    """Checksum of the last (key, count, sum) of each key: the one with the highest count."""
    last: dict[Any, Row] = {}
    for row in rows:
        before = last.get(row[0])
        if before is None or row[1] > before[1]:
            last[row[0]] = row
    return list(last.values())


def checksum(rows: Iterable[Row]) -> dict[str, int]:
    """Checksum of rows (key, count, sum) of distinct keys, in any order."""
    found = [(int(row[0]), int(row[1]), int(row[2])) for row in rows]
    return {
        "keys": len(found),
        "count": sum(row[1] for row in found),
        "sum": sum(row[2] for row in found),
        "digest": digest(found),
    }


def digest(rows: Iterable[Row]) -> int:
    """Checksum that does not depend on the order of rows; each value counts as its text."""
    return sum(zlib.crc32("|".join(map(str, row)).encode()) for row in rows)


def answer(query: str, rows: Iterable[Row]) -> dict[str, int]:
    """Checksum of the rows of a Nexmark query, with the columns of `nexmark_sql.ANSWER`; times are text."""
    texts = [tuple(map(_text, ANSWER[query], row)) for row in rows]
    return {"rows": len(texts), "digest": digest(texts)}


def _text(column: str, value: Any) -> str:
    """The text that all peers agree on: fractions rounded, times without trailing zeros."""
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)[:23] if column in TIMES else str(value)
