"""Nodes of functions with state and timers, from what users give to `process`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from snapline.api.graph_nodes import Input, Node
from snapline.contracts.functions import BatchProcessFunction, CoProcessFunction, ProcessFunction
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.process_functions import FunctionOutputs, Process, ProcessBatches, Side
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
    """The operator that calls a function with the rows, or batches, of one stream."""
    outputs = _outputs(schema, side_outputs)
    has_uid = uid is not None
    operator: Operator
    if isinstance(function, BatchProcessFunction):
        operator = ProcessBatches(function, outputs, has_uid=has_uid)
    elif isinstance(function, ProcessFunction):
        side = Side(key_columns, time_column(inputs))
        operator = Process(function, [side], outputs, has_uid=has_uid, has_event_time=_has_event_time(inputs))
    else:
        raise ConfigurationError(
            f"process({function!r}): give an object of a subclass of snapline.ProcessFunction or BatchProcessFunction"
            f"{', so with parentheses behind its name' if isinstance(function, type) else ''}; for a plain function "
            "there are map(), flat_map() and map_batches()"
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
    """The operator that calls a function with the rows of two streams."""
    if not isinstance(function, CoProcessFunction):
        raise ConfigurationError(
            f"process({function!r}): give an object of a subclass of snapline.CoProcessFunction, which has a method "
            "for each of the two streams"
        )
    first = tuple(item for item in inputs if item.index == 0)
    second = tuple(item for item in inputs if item.index == 1)
    is_broadcast = all(item.partitioning is Partitioning.BROADCAST for item in second)
    if key_columns and not other_key_columns and not is_broadcast:
        raise ConfigurationError(
            "process: the first stream is keyed and the second is not; key it too, by columns of the same types, or "
            "let all subtasks get it with connect(other.broadcast())"
        )
    if other_key_columns and not key_columns:
        raise ConfigurationError(
            "process: the second stream is keyed and the first is not; key the first too, or connect them the other "
            "way round with broadcast()"
        )
    outputs = _outputs(schema, side_outputs)
    sides = [Side(key_columns, time_column(first)), Side(other_key_columns, time_column(second), is_broadcast)]
    operator = Process(function, sides, outputs, has_uid=uid is not None, has_event_time=_has_event_time(inputs))
    return _node(operator, inputs, key_columns, outputs, uid, parallelism)


def time_column(inputs: tuple[Input, ...]) -> str | None:
    """The column of rows that event time is told from; none if there is none, or more than one."""
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
    # A stream without keys needs no uid unless the function asks for state, which it is refused then.
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
