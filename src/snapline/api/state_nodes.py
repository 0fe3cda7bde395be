"""Operators of `map_with_state` and `update_state`: functions with one state per key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from snapline.api.expressions import check_column
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.state_functions import MapColumnsWithState, MapWithState, UpdateState
from snapline.state.state_types import StateType, resolve
from snapline.state.ttl import Lifetime, as_ttl


def map_with_state(
    function: Callable[..., Any],
    rows: pa.Schema,
    key_columns: tuple[str, ...],
    *,
    state: object,
    schema: SchemaLike,
    columns: Sequence[str] | None,
    ttl: Lifetime | None,
) -> tuple[Operator, pa.Schema]:
    """The operator for rows of a schema, and the schema of its output."""
    kind, lifetime = _checked("map_with_state", function, state), as_ttl(ttl, "map_with_state")
    made = checked_schema(schema, "map_with_state()")
    if columns is None:
        return MapWithState(function, kind, lifetime, made), made
    if isinstance(columns, str):
        raise ConfigurationError(f"map_with_state: columns={columns!r}; give a list of names, such as [{columns!r}]")
    for column in columns:
        check_column("map_with_state: columns=", column, rows)
    given = tuple(name for name in made.names if name not in key_columns)
    if not given:
        raise ConfigurationError(
            "map_with_state: the schema has only key columns, which are copied; add to schema= what the function "
            "returns"
        )
    return MapColumnsWithState(function, kind, lifetime, made, tuple(columns), given), made


def update_state(
    function: Callable[..., Any], *, state: object, schema: SchemaLike, ttl: Lifetime | None
) -> tuple[Operator, pa.Schema]:
    """The operator, and the schema of its output."""
    kind = _checked("update_state", function, state)
    made = checked_schema(schema, "update_state()")
    return UpdateState(function, kind, as_ttl(ttl, "update_state"), made), made


def _checked(call: str, function: Any, state: object) -> StateType:
    if not callable(function):
        raise ConfigurationError(f"{call}({function!r}): give a function")
    try:
        kind = resolve(state)
    except ConfigurationError as error:
        raise ConfigurationError(f"{call}: state={state!r}: {error}") from error
    if call == "map_with_state" and kind.arrow is not None and _has_narrow_float(kind.arrow):
        # Within a batch the state is what the function returned, and only after it what is stored.
        raise ConfigurationError(
            f"{call}: state={state!r} would be rounded at every batch boundary; declare floats as double"
        )
    return kind


def _has_narrow_float(kind: pa.DataType) -> bool:
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        return True
    return any(_has_narrow_float(kind.field(index).type) for index in range(kind.num_fields))
