"""Snapline: consistent checkpoints for Python pipelines that run on Spark.

What is here is loaded when it is first used: `import snapline` by itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapline.api.aggregates import (
        Aggregate,
        aggregate,
        collect,
        count,
        count_distinct,
        first,
        last,
        max,
        mean,
        min,
        sum,
        top_n,
    )
    from snapline.api.connected_streams import ConnectedStreams
    from snapline.api.job import Job
    from snapline.api.job_handle import JobFailedError, JobHandle, SnapshotFailedError
    from snapline.api.keyed_stream import KeyedStream
    from snapline.api.stream import Stream
    from snapline.api.windowed_stream import WindowedStream
    from snapline.api.windows import (
        EventTimeInterval,
        EveryRows,
        GivenWindow,
        GlobalWindow,
        Session,
        Sliding,
        Tumbling,
        WhenComplete,
    )
    from snapline.config import (
        Checkpoints,
        Execution,
        ExponentialDelay,
        FailureRate,
        FixedDelay,
        NoRestart,
        RestartStrategy,
    )
    from snapline.connectors import sinks, sources
    from snapline.contracts.contexts import BatchContext, ProcessContext
    from snapline.contracts.functions import AsyncFunction, BatchProcessFunction, CoProcessFunction, ProcessFunction
    from snapline.contracts.master_hook import MasterHook
    from snapline.contracts.operator import Operator, OperatorContext
    from snapline.contracts.schemas import SchemaLike
    from snapline.contracts.sink import CommitResult, Committable, Permit, Sink, SinkContext, SinkWriter
    from snapline.contracts.source import ReaderContext, Source, SourceReader, Wait, Watermarks
    from snapline.errors import (
        ConfigurationError,
        EngineError,
        FencedError,
        PeerError,
        RestoreError,
        SnaplineError,
        StorageError,
        UserCodeError,
    )
    from snapline.state.groups import Groups
    from snapline.state.timers import TimeDomain
    from snapline.state.ttl import Ttl
    from snapline.types import CheckpointScope, JobStatus, SavepointFormat

_MODULES = {
    "api.aggregates": (
        "Aggregate",
        "aggregate",
        "collect",
        "count",
        "count_distinct",
        "first",
        "last",
        "max",
        "mean",
        "min",
        "sum",
        "top_n",
    ),
    "api.connected_streams": ("ConnectedStreams",),
    "contracts.contexts": ("BatchContext", "ProcessContext"),
    "contracts.functions": ("AsyncFunction", "BatchProcessFunction", "CoProcessFunction", "ProcessFunction"),
    "api.job_handle": ("JobFailedError", "JobHandle", "SnapshotFailedError"),
    "contracts.master_hook": ("MasterHook",),
    "api.job": ("Job",),
    "api.keyed_stream": ("KeyedStream",),
    "contracts.operator": ("Operator", "OperatorContext"),
    "contracts.schemas": ("SchemaLike",),
    "contracts.sink": ("CommitResult", "Committable", "Permit", "Sink", "SinkContext", "SinkWriter"),
    "contracts.source": ("ReaderContext", "Source", "SourceReader", "Wait", "Watermarks"),
    "api.stream": ("Stream",),
    "api.windowed_stream": ("WindowedStream",),
    "api.windows": (
        "EventTimeInterval",
        "EveryRows",
        "GivenWindow",
        "GlobalWindow",
        "Session",
        "Sliding",
        "Tumbling",
        "WhenComplete",
    ),
    "config": (
        "Checkpoints",
        "Execution",
        "ExponentialDelay",
        "FailureRate",
        "FixedDelay",
        "NoRestart",
        "RestartStrategy",
    ),
    "errors": (
        "ConfigurationError",
        "EngineError",
        "FencedError",
        "PeerError",
        "RestoreError",
        "SnaplineError",
        "StorageError",
        "UserCodeError",
    ),
    "state.keyed_backend": ("Ttl",),
    "state.groups": ("Groups",),
    "state.timers": ("TimeDomain",),
    "types": ("CheckpointScope", "JobStatus", "SavepointFormat"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
_NAMESPACES = {"sinks": "connectors.sinks", "sources": "connectors.sources"}

__all__ = [
    "Aggregate",
    "AsyncFunction",
    "BatchContext",
    "BatchProcessFunction",
    "CheckpointScope",
    "Checkpoints",
    "CoProcessFunction",
    "CommitResult",
    "Committable",
    "ConfigurationError",
    "ConnectedStreams",
    "EngineError",
    "EventTimeInterval",
    "EveryRows",
    "Execution",
    "ExponentialDelay",
    "FailureRate",
    "FencedError",
    "FixedDelay",
    "GivenWindow",
    "GlobalWindow",
    "Groups",
    "Job",
    "JobFailedError",
    "JobHandle",
    "JobStatus",
    "KeyedStream",
    "MasterHook",
    "NoRestart",
    "Operator",
    "OperatorContext",
    "PeerError",
    "Permit",
    "ProcessContext",
    "ProcessFunction",
    "ReaderContext",
    "RestartStrategy",
    "RestoreError",
    "SavepointFormat",
    "SchemaLike",
    "Session",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "Sliding",
    "SnaplineError",
    "SnapshotFailedError",
    "Source",
    "SourceReader",
    "StorageError",
    "Stream",
    "TimeDomain",
    "Ttl",
    "Tumbling",
    "UserCodeError",
    "Wait",
    "Watermarks",
    "WhenComplete",
    "WindowedStream",
    "aggregate",
    "collect",
    "count",
    "count_distinct",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "sinks",
    "sources",
    "sum",
    "top_n",
]


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        found: Any = importlib.import_module(f"{__name__}.{_NAMESPACES[name]}")
    elif name in _WHERE:
        found = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
