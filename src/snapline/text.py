"""Text helpers for messages."""

from __future__ import annotations

_MAX_REPR_CHARACTERS = 200


def shortened(value: object) -> str:
    """The `repr` of a value, cut to a length that fits into a message."""
    text = repr(value)
    return text if len(text) <= _MAX_REPR_CHARACTERS else f"{text[:_MAX_REPR_CHARACTERS]}..."


def size_text(size_bytes: int) -> str:
    """A size with the unit that suits it, up to TB."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.95 or unit == "TB":
            break
    return f"{amount:.1f} {unit}"
