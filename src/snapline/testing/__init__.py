"""What users test their jobs with: clusters without Spark, a harness for one operator, scripted rows, contract suites.

Every name is loaded on first use. docs/testing.md shows them at work.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapline.testing.clusters import ProcessCluster, ThreadCluster
    from snapline.testing.manual_clock import ManualClock
    from snapline.testing.operator_harness import OperatorHarness
    from snapline.testing.scripted_source import ABORT, AWAIT_CHECKPOINT, ScriptedSource
    from snapline.testing.sink_contract import SinkContract
    from snapline.testing.source_contract import SourceContract

__all__ = [
    "ABORT",
    "AWAIT_CHECKPOINT",
    "ManualClock",
    "OperatorHarness",
    "ProcessCluster",
    "ScriptedSource",
    "SinkContract",
    "SourceContract",
    "ThreadCluster",
]

_WHERE = {
    "ABORT": "scripted_source",
    "AWAIT_CHECKPOINT": "scripted_source",
    "ManualClock": "manual_clock",
    "OperatorHarness": "operator_harness",
    "ProcessCluster": "clusters",
    "ScriptedSource": "scripted_source",
    "SinkContract": "sink_contract",
    "SourceContract": "source_contract",
    "ThreadCluster": "clusters",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
