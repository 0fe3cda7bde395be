"""Bytes as Java reads them as text."""

from __future__ import annotations

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def java_text(data: bytes) -> str:
    """The text of bytes, with U+FFFD where they are no UTF-8; Java takes half of a surrogate pair for one of these."""
    return _SURROGATE.sub(b"\xff", data).decode(errors="replace")
