"""Settings for every test: Hypothesis draws the same examples on every run, on every machine; Spark goes first.

The fixtures with real servers are in `tests/servers_kit.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest_plugins = ["tests.servers_kit"]

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2000)
settings.load_profile("ci")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on Spark first: of several processes the first gets them all, so that no two Sparks run at a time.

    Those with Kafka clients are marked: its threads live on for a while, with connections and pipes of their own, so
    `make test` runs them in processes apart from tests that look for leaks.
    """
    items.sort(key=lambda item: "tests/spark/" not in item.nodeid)
    for item in items:
        if any(word in item.nodeid.lower() for word in ("kafka", "broker", "connectors_benchmark")):
            item.add_marker("kafka")
