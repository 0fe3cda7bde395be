"""`Stream.async_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from snapline.config.setting_checks import count
from snapline.config.units import Duration, duration_ms, positive_duration_ms
from snapline.contracts.dead_letters import checked_on_error
from snapline.contracts.functions import AsyncFunction
from snapline.contracts.schemas import Row, SchemaLike, checked_schema
from snapline.errors import ConfigurationError
from snapline.operators.async_calls import RetryPolicy, is_asynchronous
from snapline.operators.async_map import AsyncMap

if TYPE_CHECKING:
    from snapline.api.stream import Stream

_MAX_CAPACITY = 100_000
_MAX_THREADS = 1000
_MAX_RETRIES = 100


def async_map(
    self: Stream,
    function: Callable[[Row], Any] | AsyncFunction,
    *,
    schema: SchemaLike,
    ordered: bool = True,
    timeout: Duration = "30s",
    capacity: int = 100,
    on_timeout: Callable[[Row], Any] | None = None,
    retries: int = 0,
    backoff: Duration = "100ms",
    on_error: str = "fail",
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Call an external system for each row, up to `capacity` calls at a time in each subtask.

    The function takes a row and returns a row of `schema`, a list of rows or None. It is an `async def`, a blocking
    function, which runs in threads, or an `AsyncFunction`. If not `ordered`, rows are emitted as their results
    arrive, but never past a watermark. If it raises it is called again up to `retries` times, after a pause of
    `backoff` that doubles each time. `timeout` covers all attempts: a row without a result by then fails the job,
    or is replaced by what `on_timeout` returns for it. `on_error`, as in `map`, is what happens to a row that fails
    after all retries, or gets no result in time. Rows that are still waiting are part of every checkpoint,
    and are called for again after a restart.
    """
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
    made, on_bad = checked_schema(schema, "async_map()"), checked_on_error(on_error, "async_map")
    operator = AsyncMap(
        function,
        self.schema,
        made,
        ordered=bool(ordered),
        capacity=capacity,
        policy=policy,
        on_timeout=on_timeout,
        on_error=on_bad,
    )
    return self._then("async_map", operator, made, uid, parallelism, on_error=on_bad, has_state=True)
