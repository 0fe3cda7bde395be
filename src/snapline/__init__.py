"""Snapline: consistent checkpoints for Python pipelines that run on Spark.

Names are loaded on first use, so `import snapline` by itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapline.api.aggregates import Aggregate as Aggregate
    from snapline.api.aggregates import aggregate as aggregate
    from snapline.api.aggregates import collect as collect
    from snapline.api.aggregates import count as count
    from snapline.api.aggregates import count_distinct as count_distinct
    from snapline.api.aggregates import first as first
    from snapline.api.aggregates import last as last
    from snapline.api.aggregates import max as max
    from snapline.api.aggregates import mean as mean
    from snapline.api.aggregates import min as min
    from snapline.api.aggregates import sum as sum
    from snapline.api.aggregates import top_n as top_n
    from snapline.api.connected_streams import ConnectedStreams as ConnectedStreams
    from snapline.api.job import Job as Job
    from snapline.api.job_handle import JobFailedError as JobFailedError
    from snapline.api.job_handle import JobHandle as JobHandle
    from snapline.api.job_handle import SnapshotFailedError as SnapshotFailedError
    from snapline.api.job_plan import JobPlan as JobPlan
    from snapline.api.keyed_stream import KeyedStream as KeyedStream
    from snapline.api.stream import Stream as Stream
    from snapline.api.streaming_queries import write_stream as write_stream
    from snapline.api.windowed_stream import WindowedStream as WindowedStream
    from snapline.api.windows import EventTimeInterval as EventTimeInterval
    from snapline.api.windows import EveryRows as EveryRows
    from snapline.api.windows import GivenWindow as GivenWindow
    from snapline.api.windows import GlobalWindow as GlobalWindow
    from snapline.api.windows import Session as Session
    from snapline.api.windows import Sliding as Sliding
    from snapline.api.windows import Tumbling as Tumbling
    from snapline.api.windows import WhenComplete as WhenComplete
    from snapline.config import S3 as S3
    from snapline.config import CheckpointMode as CheckpointMode
    from snapline.config import Checkpoints as Checkpoints
    from snapline.config import Duration as Duration
    from snapline.config import Encryption as Encryption
    from snapline.config import Execution as Execution
    from snapline.config import ExponentialDelay as ExponentialDelay
    from snapline.config import FailureRate as FailureRate
    from snapline.config import FixedDelay as FixedDelay
    from snapline.config import Monitoring as Monitoring
    from snapline.config import NoRestart as NoRestart
    from snapline.config import RestartStrategy as RestartStrategy
    from snapline.config import Secret as Secret
    from snapline.config import SecretLike as SecretLike
    from snapline.config import Size as Size
    from snapline.config import StateBackend as StateBackend
    from snapline.config import StorageOptions as StorageOptions
    from snapline.config import StorageOptionsLike as StorageOptionsLike
    from snapline.connectors import formats as formats
    from snapline.connectors import sinks as sinks
    from snapline.connectors import sources as sources
    from snapline.contracts.contexts import BatchContext as BatchContext
    from snapline.contracts.contexts import BroadcastMap as BroadcastMap
    from snapline.contracts.contexts import ProcessContext as ProcessContext
    from snapline.contracts.contexts import Time as Time
    from snapline.contracts.functions import AsyncFunction as AsyncFunction
    from snapline.contracts.functions import BatchProcessFunction as BatchProcessFunction
    from snapline.contracts.functions import CoProcessFunction as CoProcessFunction
    from snapline.contracts.functions import ProcessFunction as ProcessFunction
    from snapline.contracts.master_hook import MasterHook as MasterHook
    from snapline.contracts.operator import Operator as Operator
    from snapline.contracts.operator import OperatorContext as OperatorContext
    from snapline.contracts.operator_coordinator import CoordinatorContext as CoordinatorContext
    from snapline.contracts.operator_coordinator import OperatorCoordinator as OperatorCoordinator
    from snapline.contracts.schemas import Row as Row
    from snapline.contracts.schemas import SchemaLike as SchemaLike
    from snapline.contracts.sink import CommitResult as CommitResult
    from snapline.contracts.sink import CommitScope as CommitScope
    from snapline.contracts.sink import Committable as Committable
    from snapline.contracts.sink import GlobalCommitter as GlobalCommitter
    from snapline.contracts.sink import Permit as Permit
    from snapline.contracts.sink import RetryWith as RetryWith
    from snapline.contracts.sink import Sink as Sink
    from snapline.contracts.sink import SinkContext as SinkContext
    from snapline.contracts.sink import SinkWriter as SinkWriter
    from snapline.contracts.source import BadRow as BadRow
    from snapline.contracts.source import CheckpointLine as CheckpointLine
    from snapline.contracts.source import Position as Position
    from snapline.contracts.source import ReaderContext as ReaderContext
    from snapline.contracts.source import Source as Source
    from snapline.contracts.source import SourceReader as SourceReader
    from snapline.contracts.source import Split as Split
    from snapline.contracts.source import SplitRows as SplitRows
    from snapline.contracts.source import Wait as Wait
    from snapline.contracts.source import Watermarks as Watermarks
    from snapline.contracts.transaction_sink import TransactionSink as TransactionSink
    from snapline.errors import ConfigurationError as ConfigurationError
    from snapline.errors import EngineError as EngineError
    from snapline.errors import FencedError as FencedError
    from snapline.errors import PeerError as PeerError
    from snapline.errors import RestoreError as RestoreError
    from snapline.errors import SnaplineError as SnaplineError
    from snapline.errors import StorageError as StorageError
    from snapline.errors import TransientError as TransientError
    from snapline.errors import UserCodeError as UserCodeError
    from snapline.operators.aggregates.custom_accumulators import MergeableFunction as MergeableFunction
    from snapline.protocol import statistics as statistics
    from snapline.runtime.job_logs import JobLogFilter as JobLogFilter
    from snapline.runtime.job_logs import JsonLogFormatter as JsonLogFormatter
    from snapline.state.collection_states import ListState as ListState
    from snapline.state.collection_states import MapState as MapState
    from snapline.state.collection_states import Spans as Spans
    from snapline.state.groups import Groups as Groups
    from snapline.state.operator_state import BroadcastState as BroadcastState
    from snapline.state.operator_state import OperatorList as OperatorList
    from snapline.state.operator_state import OperatorStates as OperatorStates
    from snapline.state.operator_state import RawOperatorState as RawOperatorState
    from snapline.state.timers import DueTimers as DueTimers
    from snapline.state.timers import TimeDomain as TimeDomain
    from snapline.state.timers import Timers as Timers
    from snapline.state.ttl import Ttl as Ttl
    from snapline.state.value_states import AggregateFunction as AggregateFunction
    from snapline.state.value_states import AggregatingState as AggregatingState
    from snapline.state.value_states import ReducingState as ReducingState
    from snapline.state.value_states import ValueState as ValueState
    from snapline.types import CheckpointScope as CheckpointScope
    from snapline.types import ClaimMode as ClaimMode
    from snapline.types import ExecutionId as ExecutionId
    from snapline.types import ExternalizedRetention as ExternalizedRetention
    from snapline.types import FailureReason as FailureReason
    from snapline.types import JobStatus as JobStatus
    from snapline.types import Partitioning as Partitioning
    from snapline.types import SavepointFormat as SavepointFormat
    from snapline.types import SnapshotKind as SnapshotKind
    from snapline.types import SubtaskId as SubtaskId
    from snapline.types import TaskStatus as TaskStatus

_MODULES = {
    "api.aggregates": "Aggregate aggregate collect count count_distinct first last max mean min sum top_n",
    "api.connected_streams": "ConnectedStreams",
    "api.job": "Job",
    "api.job_handle": "JobFailedError JobHandle SnapshotFailedError",
    "api.job_plan": "JobPlan",
    "api.keyed_stream": "KeyedStream",
    "api.stream": "Stream",
    "api.streaming_queries": "write_stream",
    "api.windowed_stream": "WindowedStream",
    "api.windows": "EventTimeInterval EveryRows GivenWindow GlobalWindow Session Sliding Tumbling WhenComplete",
    "config": (
        "CheckpointMode Checkpoints Duration Encryption Execution ExponentialDelay FailureRate FixedDelay Monitoring "
        "NoRestart RestartStrategy S3 Secret SecretLike Size StateBackend StorageOptions StorageOptionsLike"
    ),
    "contracts.contexts": "BatchContext BroadcastMap ProcessContext Time",
    "contracts.functions": "AsyncFunction BatchProcessFunction CoProcessFunction ProcessFunction",
    "contracts.master_hook": "MasterHook",
    "contracts.operator": "Operator OperatorContext",
    "contracts.operator_coordinator": "CoordinatorContext OperatorCoordinator",
    "contracts.schemas": "Row SchemaLike",
    "contracts.sink": (
        "CommitResult CommitScope Committable GlobalCommitter Permit RetryWith Sink SinkContext SinkWriter"
    ),
    "contracts.source": (
        "BadRow CheckpointLine Position ReaderContext Source SourceReader Split SplitRows Wait Watermarks"
    ),
    "contracts.transaction_sink": "TransactionSink",
    "errors": (
        "ConfigurationError EngineError FencedError PeerError RestoreError SnaplineError StorageError TransientError "
        "UserCodeError"
    ),
    "operators.aggregates.custom_accumulators": "MergeableFunction",
    "runtime.job_logs": "JobLogFilter JsonLogFormatter",
    "state.collection_states": "ListState MapState Spans",
    "state.groups": "Groups",
    "state.operator_state": "BroadcastState OperatorList OperatorStates RawOperatorState",
    "state.timers": "DueTimers TimeDomain Timers",
    "state.ttl": "Ttl",
    "state.value_states": "AggregateFunction AggregatingState ReducingState ValueState",
    "types": (
        "CheckpointScope ClaimMode ExecutionId ExternalizedRetention FailureReason JobStatus Partitioning "
        "SavepointFormat SnapshotKind SubtaskId TaskStatus"
    ),
}
"""Where each public name is defined; the imports above say the same to type checkers."""

_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}
_NAMESPACES = {
    "formats": "connectors.formats",
    "sinks": "connectors.sinks",
    "sources": "connectors.sources",
    "statistics": "protocol.statistics",
}

__all__ = list(_WHERE | _NAMESPACES)


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
