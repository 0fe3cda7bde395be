"""Runs the chaos command: `python -m snapline.devtools.chaos --help`."""

from __future__ import annotations

import sys

from snapline.devtools.chaos.chaos_command import main

sys.exit(main())
