"""`KeyedStream.map_with_state` and `update_state`: functions with one state per key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.api.expressions import check_column
from snapline.contracts.dead_letters import OnError, checked_on_error
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.state_functions import MapColumnsWithState, MapWithState, UpdateState
from snapline.state.evolution import Migrate
from snapline.state.state_types import StateType, resolve
from snapline.state.ttl import Lifetime, as_ttl

if TYPE_CHECKING:
    from snapline.api.keyed_stream import KeyedStream
    from snapline.api.stream import Stream


def map_with_state(
    self: KeyedStream,
    function: Callable[..., Any],
    *,
    state: object,
    schema: SchemaLike,
    columns: Sequence[str] | None = None,
    ttl: Lifetime | None = None,
    migrate: Migrate | None = None,
    on_error: str = "fail",
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Call `function(state, row)` for each row; it returns the new state of the key, and a row to emit or None.

    `state` is the type of the state, such as `int` or "total DOUBLE, n BIGINT". The function gets None for a new
    key, and returns None to remove the state. A row is a dict. With `columns` the function gets the values of these
    columns instead, `function(state, value)`, which is faster, and returns only the columns of `schema` that are
    not key columns: one value, or a tuple of several; the key columns are copied. A state with fields is a dict,
    and with `columns` a tuple. With `ttl` a state that has not changed for that long expires. `on_error` is what
    happens to a row that the function fails for, as in `Stream.map`; the state stays as it was before that row.
    `migrate` takes a state that an older version of the job stored with another type, and returns it as it is declared
    now.
    """
    policy = checked_on_error(on_error, "map_with_state")
    kind, lifetime = _checked("map_with_state", function, state), as_ttl(ttl, "map_with_state")
    made = checked_schema(schema, "map_with_state()")
    if columns is None:
        operator = MapWithState(function, kind, lifetime, made, policy)
        operator.migrate = migrate
        return self._then("map_with_state", operator, made, uid, parallelism, on_error=policy, has_state=True)
    if isinstance(columns, str):
        raise ConfigurationError(f"map_with_state: columns={columns!r}; give a list of names, such as [{columns!r}]")
    for column in columns:
        check_column("map_with_state: columns=", column, self.schema)
    given = tuple(name for name in made.names if name not in self.key_columns)
    if not given:
        raise ConfigurationError(
            "map_with_state: the schema has only key columns, which are copied; add to schema= what the function "
            "returns"
        )
    operator = MapColumnsWithState(function, kind, lifetime, made, tuple(columns), given, policy)
    operator.migrate = migrate
    return self._then("map_with_state", operator, made, uid, parallelism, on_error=policy, has_state=True)


def update_state(
    self: KeyedStream,
    function: Callable[..., Any],
    *,
    state: object,
    schema: SchemaLike,
    ttl: Lifetime | None = None,
    migrate: Migrate | None = None,
    on_error: str = "fail",
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Call `function(old, groups, batch)` once per batch; it returns the new states, and a batch to emit or None.

    `old` are the states of the distinct keys, an Arrow array with nulls for new keys; `groups`, a `Groups`, maps
    rows to these keys; the new states are in the same order. Results must not depend on batch boundaries. `on_error`
    is as in `Stream.map_batches`: the function is called again with parts of a batch that it fails for, and the states
    from before it. `migrate` is as for `map_with_state`.
    """
    kind, policy = _checked("update_state", function, state), checked_on_error(on_error, "update_state")
    if policy is not OnError.FAIL and kind.arrow is None:
        raise ConfigurationError(
            f"update_state: on_error={on_error!r} with state={state!r}: the function may have changed objects before "
            "it fails; declare a type such as 'bigint', or use map_with_state()"
        )
    made = checked_schema(schema, "update_state()")
    operator = UpdateState(function, kind, as_ttl(ttl, "update_state"), made, policy)
    operator.migrate = migrate
    return self._then("update_state", operator, made, uid, parallelism, on_error=policy, has_state=True)


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
