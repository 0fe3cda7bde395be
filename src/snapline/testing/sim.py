"""Runs the simulator: `python -m snapline.testing.sim --help`."""

from __future__ import annotations

import sys

from snapline.devtools.simulator.simulator_command import main

if __name__ == "__main__":
    sys.exit(main())
