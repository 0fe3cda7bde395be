"""Runs the replay tool: `python -m snapline.testing.replay KIND`."""

from __future__ import annotations

import sys

from snapline.devtools.replay.replay_command import main

if __name__ == "__main__":
    sys.exit(main())
