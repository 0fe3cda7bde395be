"""The fork server of this process of tests: drivers and commands start in milliseconds and are still processes."""

from __future__ import annotations

import atexit
from functools import cache
from importlib.util import find_spec

from snapline.devtools.kit.forked_programs import ForkServer

MODULES = (
    "benchmarks.sink_kills.kill_targets",
    "benchmarks.sink_kills.numbers_source",
    "snapline.cli.entry",
    "snapline.connectors.sinks",
    "snapline.connectors.sources",
    "snapline.devtools.chaos.chaos_driver",
    "snapline.testing.clusters",
    "snapline.web.rest_app",
    "snapline.web.web_server",
)
OTHERS = (
    "confluent_kafka",
    "deltalake",
    "numpy.random",
    "pandas",
    "psycopg",
    "s3fs",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.h11_impl",
)
"""What those load when they are used, where it is installed."""


@cache
def programs() -> ForkServer:
    """Started when first asked for; it ends with this process."""
    server = ForkServer([*MODULES, *(name for name in OTHERS if find_spec(name.partition(".")[0]))])
    atexit.register(server.close)
    return server
