"""`python -m snapline`: same as the command `snapline`."""

from __future__ import annotations

import sys

from snapline.cli import main

if __name__ == "__main__":
    sys.exit(main())
