"""`process` of streams: functions with state and timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from snapline.api.graph_nodes import BaseStream, Input
from snapline.contracts.dead_letters import DEAD_LETTERS, OnError, checked_on_error
from snapline.contracts.functions import BatchProcessFunction, CoProcessFunction, ProcessFunction
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.process_functions import FunctionInput, FunctionOutputs, Process, ProcessBatches
from snapline.types import Partitioning

if TYPE_CHECKING:
    from snapline.api.connected_streams import ConnectedStreams
    from snapline.api.keyed_stream import KeyedStream
    from snapline.api.stream import Stream


def process(
    self: Stream | KeyedStream,
    function: ProcessFunction | BatchProcessFunction,
    *,
    schema: SchemaLike,
    side_outputs: Mapping[str, SchemaLike] | None = None,
    on_error: str = "fail",
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Apply a function that emits rows of `schema`, and to side outputs, given as their schemas by name.

    Only on a keyed stream does it have keyed state and timers. See `Stream.side_output` for side outputs. `on_error`
    is what happens to a row or timer that the function fails for, as in `Stream.map`: it emits nothing, but what it
    had changed in state stays. A batch function is called again as in `map_batches`, and only without keys.
    """
    policy = checked_on_error(on_error, "process")
    outputs = _outputs(schema, side_outputs, policy)
    has_uid = uid is not None
    operator: Operator
    if isinstance(function, BatchProcessFunction):
        if policy is not OnError.FAIL and self._key_columns:
            raise ConfigurationError(
                f"process: on_error={on_error!r} with a BatchProcessFunction on a keyed stream: what it changes in "
                "state before it fails cannot be taken back; use a ProcessFunction, or sort out bad rows before "
                "key_by() with map_batches(..., on_error=...)"
            )
        operator = ProcessBatches(function, outputs, has_uid=has_uid, on_error=policy)
    elif isinstance(function, ProcessFunction):
        side = FunctionInput(self._key_columns, time_column(self._inputs))
        has_event_time = self._event_time is not None
        operator = Process(function, [side], outputs, has_uid=has_uid, has_event_time=has_event_time, on_error=policy)
    else:
        raise ConfigurationError(
            f"process({function!r}): give an instance of a subclass of snapline.ProcessFunction or BatchProcessFunction"
            f"{', not the class' if isinstance(function, type) else ''}; for a plain function use map(), flat_map() or "
            "map_batches()"
        )
    return _processed(self, operator, outputs, uid, parallelism, policy)


def process_connected(
    self: ConnectedStreams,
    function: CoProcessFunction,
    *,
    schema: SchemaLike,
    side_outputs: Mapping[str, SchemaLike] | None = None,
    on_error: str = "fail",
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Apply a function to the rows of both streams; it emits rows of `schema`, and to side outputs.

    Both are keyed, and share the state of a key; or the second is `broadcast()`, and the first may be keyed. `on_error`
    is as in `Stream.process`.
    """
    policy = checked_on_error(on_error, "process")
    if not isinstance(function, CoProcessFunction):
        raise ConfigurationError(
            f"process({function!r}): give an instance of a subclass of snapline.CoProcessFunction, which has a "
            "method for each of the two streams"
        )
    first, second = self._first, self._second
    is_broadcast = all(item.partitioning is Partitioning.BROADCAST for item in second._inputs)
    if first._key_columns and not second._key_columns and not is_broadcast:
        raise ConfigurationError(
            "process: the first stream is keyed and the second is not; key it too, by columns of the same types, or "
            "broadcast it with connect(other.broadcast())"
        )
    if second._key_columns and not first._key_columns:
        raise ConfigurationError(
            "process: the second stream is keyed and the first is not; key the first too, or swap them and broadcast "
            "the second"
        )
    outputs = _outputs(schema, side_outputs, policy)
    sides = [
        FunctionInput(first._key_columns, time_column(first._inputs)),
        FunctionInput(second._key_columns, time_column(second._inputs), is_broadcast),
    ]
    has_event_time = self._event_time is not None
    operator = Process(
        function, sides, outputs, has_uid=uid is not None, has_event_time=has_event_time, on_error=policy
    )
    return _processed(self, operator, outputs, uid, parallelism, policy)


def time_column(inputs: tuple[Input, ...]) -> str | None:
    """The watermark column of the rows; None if there is none, or more than one."""
    found: set[str] = set()
    for item in inputs:
        found |= item.node.event_time or frozenset()
    known = [name for name in found if all(name in item.schema.names for item in inputs)]
    return known[0] if len(found) == 1 and known else None


def _outputs(schema: SchemaLike, side_outputs: Mapping[str, SchemaLike] | None, on_error: OnError) -> FunctionOutputs:
    if side_outputs is not None and not isinstance(side_outputs, Mapping):
        raise ConfigurationError(f"process: side_outputs={side_outputs!r}; give schemas by name, {{'late': schema}}")
    named: dict[str, pa.Schema] = {}
    for name, item in (side_outputs or {}).items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"process: {name!r} cannot be the name of a side output; use text")
        if name == DEAD_LETTERS and on_error is OnError.DEAD_LETTER:
            raise ConfigurationError(
                f"process: a side output cannot have the name {name!r}, which is that of the rows the function fails "
                "for; use another name"
            )
        named[name] = checked_schema(item, f"the side output {name!r} of process()")
    return FunctionOutputs(checked_schema(schema, "process()"), named)


def _processed(
    stream: BaseStream,
    operator: Operator,
    outputs: FunctionOutputs,
    uid: str | None,
    parallelism: int | None,
    on_error: OnError,
) -> Stream:
    # Without keys a uid is needed only for operator state, which the function is refused without one.
    has_state = bool(stream._key_columns) or uid is not None
    return stream._then(
        "process",
        operator,
        outputs.schema,
        uid,
        parallelism,
        on_error=on_error,
        has_state=has_state,
        side_outputs=outputs.side_outputs,
    )
