"""Timers for functions of rows, fired one by one in order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.timers import DueTimers, TimeDomain
from snapline.types import MAX_WATERMARK

_LARGEST_BULK = 1000
"""Limit of timers taken out at a time, approximately."""

_MOST_FIRED = 10_000
"""Limit of timers of processing time fired in one call, so that other work gets its turn."""

_FEW_AT_THE_END = 1000
_EACH_AT_THE_END = 100
"""Limit of timers fired after the end of the data: a base, and an allowance for each timer there was then."""


@dataclass(frozen=True, slots=True)
class _Bulk:
    """Timers taken out of the state, some of which have not fired yet."""

    domain: TimeDomain
    due: DueTimers
    last_ms: int


class RowTimers:
    """Registers and fires the timers of one operator in one subtask.

    Takes out many timers at once, which is cheap, and fires them one by one. If a fired timer sets or deletes one among
    those taken out, the rest is put back first, and fewer are taken out next time.
    """

    def __init__(self, keyed: KeyedBackend) -> None:
        self._keyed = keyed
        self._timers = keyed.timers()
        self._bulk: _Bulk | None = None
        self._bulk_size = _LARGEST_BULK
        self._is_put_back = False
        self._position = 0

    def register(self, domain: TimeDomain, time_ms: int) -> None:
        """Set a timer for the current key."""
        self._put_back(domain, time_ms)
        self._timers.register(domain, time_ms)

    def delete(self, domain: TimeDomain, time_ms: int) -> None:
        """Delete a timer of the current key."""
        self._put_back(domain, time_ms)
        self._timers.delete(domain, time_ms)

    def next_ms(self, domain: TimeDomain) -> int | None:
        return self._timers.next_ms(domain)

    def fire(self, domain: TimeDomain, until_ms: int, call: Callable[[int, Any], None]) -> None:
        """Call a function with the time and key of each due timer, while that key is selected.

        In processing time it may leave some timers for the next call.
        """
        limit: int | None = None
        if domain is TimeDomain.PROCESSING:
            limit = _MOST_FIRED
        elif until_ms == MAX_WATERMARK:
            limit = _FEW_AT_THE_END + _EACH_AT_THE_END * len(self._timers)
        fired = 0
        while (due := self._timers.due(domain, until_ms, self._bulk_size)) is not None:
            fired += self._fire(_Bulk(domain, due, int(due.times[-1])), call)
            if limit is not None and fired >= limit:
                if domain is TimeDomain.PROCESSING:
                    return
                raise UserCodeError(
                    f"{fired} timers have fired after the end of the data, and keep setting more; check "
                    "context.has_ended in on_timer and set none then"
                )

    def _fire(self, bulk: _Bulk, call: Callable[[int, Any], None]) -> int:
        due, select = bulk.due, self._keyed.select
        self._bulk, self._is_put_back = bulk, False
        try:
            for position, (time_ms, key) in enumerate(zip(due.times.tolist(), due.keys.to_pylist(), strict=True)):
                self._position = position
                select(due.rows, position)
                call(time_ms, tuple(key.values()) if isinstance(key, dict) else key)
                if self._is_put_back:
                    return position + 1
            self._bulk_size = min(2 * self._bulk_size, _LARGEST_BULK)
            return len(due)
        finally:
            self._bulk = None

    def _put_back(self, domain: TimeDomain, time_ms: int) -> None:
        bulk = self._bulk
        if bulk is None or bulk.domain is not domain or time_ms > bulk.last_ms:
            return
        self._bulk, self._is_put_back = None, True
        self._bulk_size = 1
        rest = np.arange(self._position + 1, len(bulk.due))
        if rest.size:
            self._timers.register_all(domain, bulk.due.rows.take(rest), pa.array(bulk.due.times[rest]))
