"""Text helpers for messages."""

from __future__ import annotations

_MAX_REPR_CHARACTERS = 200


def shortened(value: object) -> str:
    """The `repr` of a value, cut to a length that fits into a message."""
    text = repr(value)
    return text if len(text) <= _MAX_REPR_CHARACTERS else f"{text[:_MAX_REPR_CHARACTERS]}..."
