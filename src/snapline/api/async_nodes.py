"""What users give to `async_map`, checked when the job is put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from snapline.config import Duration, duration_ms
from snapline.contracts.functions import AsyncFunction
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.async_calls import Patience, is_asynchronous
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
    """The operator for rows of a schema, and the schema of what it emits."""
    if isinstance(function, type) or not (callable(function) or isinstance(function, AsyncFunction)):
        raise ConfigurationError(
            f"async_map({function!r}): give an async function of a row, a blocking one, or an object of a subclass of "
            "snapline.AsyncFunction"
        )
    if on_timeout is not None and not callable(on_timeout):
        raise ConfigurationError(f"async_map: on_timeout={on_timeout!r}; give a function of a row")
    asked = function.ask if isinstance(function, AsyncFunction) else function
    most = _MAX_CAPACITY if is_asynchronous(asked) else _MAX_THREADS
    _check_count("capacity", capacity, 1, most)
    _check_count("retries", retries, 0, _MAX_RETRIES)
    timeout_ms = duration_ms(timeout, setting="async_map: timeout")
    if timeout_ms == 0:
        raise ConfigurationError("async_map: timeout is 0; rows may not be waited for without end, nor not at all")
    patience = Patience(timeout_ms / 1000, retries, duration_ms(backoff, setting="async_map: backoff") / 1000)
    made = checked_schema(schema, "async_map()")
    operator = AsyncMap(
        function, rows, made, ordered=bool(ordered), capacity=capacity, patience=patience, on_timeout=on_timeout
    )
    return operator, made


def _check_count(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"async_map: {name}={value!r}; use a number from {least} to {most}")
