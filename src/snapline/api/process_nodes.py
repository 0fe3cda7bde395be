"""Nodes of `process`: functions with state and timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from snapline.api.graph_nodes import Input, Node
from snapline.contracts.functions import BatchProcessFunction, CoProcessFunction, ProcessFunction
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.process_functions import FunctionInput, FunctionOutputs, Process, ProcessBatches
from snapline.types import Partitioning


def process_node(
    function: Any,
    inputs: tuple[Input, ...],
    key_columns: tuple[str, ...],
    *,
    schema: SchemaLike,
    side_outputs: Mapping[str, SchemaLike] | None,
    uid: str | None,
    parallelism: int | None,
) -> Node:
    """The node of a function of rows, or batches, of one stream."""
    outputs = _outputs(schema, side_outputs)
    has_uid = uid is not None
    operator: Operator
    if isinstance(function, BatchProcessFunction):
        operator = ProcessBatches(function, outputs, has_uid=has_uid)
    elif isinstance(function, ProcessFunction):
        side = FunctionInput(key_columns, time_column(inputs))
        operator = Process(function, [side], outputs, has_uid=has_uid, has_event_time=_has_event_time(inputs))
    else:
        raise ConfigurationError(
            f"process({function!r}): give an instance of a subclass of snapline.ProcessFunction or BatchProcessFunction"
            f"{', not the class' if isinstance(function, type) else ''}; for a plain function use map(), flat_map() or "
            "map_batches()"
        )
    return _node(operator, inputs, key_columns, outputs, uid, parallelism)


def connected_process_node(
    function: Any,
    inputs: tuple[Input, ...],
    key_columns: tuple[str, ...],
    other_key_columns: tuple[str, ...],
    *,
    schema: SchemaLike,
    side_outputs: Mapping[str, SchemaLike] | None,
    uid: str | None,
    parallelism: int | None,
) -> Node:
    """The node of a function of the rows of two streams."""
    if not isinstance(function, CoProcessFunction):
        raise ConfigurationError(
            f"process({function!r}): give an instance of a subclass of snapline.CoProcessFunction, which has a "
            "method for each of the two streams"
        )
    first = tuple(item for item in inputs if item.index == 0)
    second = tuple(item for item in inputs if item.index == 1)
    is_broadcast = all(item.partitioning is Partitioning.BROADCAST for item in second)
    if key_columns and not other_key_columns and not is_broadcast:
        raise ConfigurationError(
            "process: the first stream is keyed and the second is not; key it too, by columns of the same types, or "
            "broadcast it with connect(other.broadcast())"
        )
    if other_key_columns and not key_columns:
        raise ConfigurationError(
            "process: the second stream is keyed and the first is not; key the first too, or swap them and broadcast "
            "the second"
        )
    outputs = _outputs(schema, side_outputs)
    sides = [
        FunctionInput(key_columns, time_column(first)),
        FunctionInput(other_key_columns, time_column(second), is_broadcast),
    ]
    operator = Process(function, sides, outputs, has_uid=uid is not None, has_event_time=_has_event_time(inputs))
    return _node(operator, inputs, key_columns, outputs, uid, parallelism)


def time_column(inputs: tuple[Input, ...]) -> str | None:
    """The watermark column of the rows; None if there is none, or more than one."""
    found: set[str] = set()
    for item in inputs:
        found |= item.node.event_time or frozenset()
    known = [name for name in found if all(name in item.schema.names for item in inputs)]
    return known[0] if len(found) == 1 and known else None


def _has_event_time(inputs: tuple[Input, ...]) -> bool:
    return all(item.node.event_time is not None for item in inputs)


def _outputs(schema: SchemaLike, side_outputs: Mapping[str, SchemaLike] | None) -> FunctionOutputs:
    if side_outputs is not None and not isinstance(side_outputs, Mapping):
        raise ConfigurationError(f"process: side_outputs={side_outputs!r}; give schemas by name, {{'late': schema}}")
    named: dict[str, pa.Schema] = {}
    for name, item in (side_outputs or {}).items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"process: {name!r} cannot be the name of a side output; use text")
        named[name] = checked_schema(item, f"the side output {name!r} of process()")
    return FunctionOutputs(checked_schema(schema, "process()"), named)


def _node(
    operator: Operator,
    inputs: tuple[Input, ...],
    key_columns: tuple[str, ...],
    outputs: FunctionOutputs,
    uid: str | None,
    parallelism: int | None,
) -> Node:
    # Without keys a uid is needed only for operator state, which the function is refused without one.
    has_state = bool(key_columns) or uid is not None
    return Node(
        "process",
        operator,
        uid,
        inputs,
        outputs.schema,
        key_columns,
        parallelism,
        has_state=has_state,
        side_outputs=outputs.side_outputs,
    )
