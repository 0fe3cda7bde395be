"""Offsets of data sources, kept as JSON."""

from __future__ import annotations

import json
from typing import Any

from snapline.errors import UserCodeError
from snapline.text import shortened


def offset_text(offset: Any, what: str) -> str:
    """An offset as JSON; `UserCodeError`, which starts with `what`, if it is none."""
    if not isinstance(offset, dict):
        raise UserCodeError(f"{what} gave {shortened(offset)}; an offset is a dict")
    try:
        return json.dumps(offset)
    except (TypeError, ValueError) as error:
        raise UserCodeError(f"{what} gave {shortened(offset)}, which is not JSON: {error}") from error
