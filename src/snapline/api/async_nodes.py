"""The operator of `async_map`, with its arguments checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from snapline.config.setting_checks import count
from snapline.config.units import Duration, duration_ms, positive_duration_ms
from snapline.contracts.functions import AsyncFunction
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.async_calls import RetryPolicy, is_asynchronous
from snapline.operators.async_map import AsyncMap

_MAX_CAPACITY = 100_000
_MAX_THREADS = 1000
_MAX_RETRIES = 100


def async_operator(
    function: Any,
    rows: pa.Schema,
    *,
    schema: SchemaLike,
    ordered: bool,
    timeout: Duration,
    capacity: int,
    on_timeout: Callable[..., Any] | None,
    retries: int,
    backoff: Duration,
) -> tuple[AsyncMap, pa.Schema]:
    """The operator for rows of a schema, and the schema of its output."""
    if isinstance(function, type) or not (callable(function) or isinstance(function, AsyncFunction)):
        raise ConfigurationError(
            f"async_map({function!r}): give an async function of a row, a blocking one, or an instance of a subclass "
            "of snapline.AsyncFunction"
        )
    if on_timeout is not None and not callable(on_timeout):
        raise ConfigurationError(f"async_map: on_timeout={on_timeout!r}; give a function of a row")
    asked = function.ask if isinstance(function, AsyncFunction) else function
    most = _MAX_CAPACITY if is_asynchronous(asked) else _MAX_THREADS
    count(capacity, "async_map: capacity", least=1, most=most)
    count(retries, "async_map: retries", least=0, most=_MAX_RETRIES)
    timeout_ms = positive_duration_ms(timeout, "async_map: timeout")
    policy = RetryPolicy(timeout_ms / 1000, retries, duration_ms(backoff, setting="async_map: backoff") / 1000)
    made = checked_schema(schema, "async_map()")
    operator = AsyncMap(
        function, rows, made, ordered=bool(ordered), capacity=capacity, policy=policy, on_timeout=on_timeout
    )
    return operator, made
