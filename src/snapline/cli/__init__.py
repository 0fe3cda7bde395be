"""The command `snapline`."""

from __future__ import annotations

from snapline.cli.entry import main

__all__ = ["main"]
