"""Runs the replay tool: `python -m snapline.testing.replay KIND`."""

from __future__ import annotations

import sys

from snapline.testing.replay.command import main

sys.exit(main())
