"""Gets the servers that the tests need: `python -m snapline.devtools.servers`."""

from __future__ import annotations

import sys

from snapline.devtools.servers.servers_command import main

sys.exit(main())
