"""Timers for functions of rows, fired one by one in order of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from snapline.errors import UserCodeError
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.timers import DueTimers, TimeDomain
from snapline.types import MAX_WATERMARK

_LARGEST_BULK = 4000
"""Limit of timers taken out at a time, approximately."""

_MOST_FIRED = 10_000
"""Limit of timers of processing time fired in one call, so that other work gets its turn."""

_FEW_AT_THE_END = 1000
_EACH_AT_THE_END = 100
"""Limit of timers fired after the end of the data: a base, and an allowance for each timer there was then."""


class _Bulk:
    """Timers taken out of the state, in order of time; and those that firing them has set among them.

    A timer is its time, and its key's number in the batch of their keys.
    """

    def __init__(self, domain: TimeDomain, due: DueTimers, owners: Sequence[int]) -> None:
        self.domain = domain
        self.last_ms = int(due.times[-1])
        self.keys = [tuple(key.values()) if isinstance(key, dict) else key for key in due.keys.to_pylist()]
        self._times: list[int] = due.times.tolist()
        self._owners = owners
        self._next = 0
        self._set: list[tuple[int, int]] = []
        self._waiting: set[tuple[int, int]] | None = None
        """All that are to fire, once one was set or deleted."""
        self._key_of: dict[int, Any] = {}

    def take(self) -> tuple[int, int, Any] | None:
        """The time, owner and key of the next timer, or None."""
        while self._next < len(self._times) or self._set:
            if self._set and (self._next >= len(self._times) or self._set[0][0] < self._times[self._next]):
                time_ms, owner = heappop(self._set)
                key = self._key_of[owner]
            else:
                time_ms, owner, key = self._times[self._next], self._owners[self._next], self.keys[self._next]
                self._next += 1
            if self._waiting is None:
                return time_ms, owner, key
            if (time_ms, owner) in self._waiting:
                self._waiting.remove((time_ms, owner))
                return time_ms, owner, key
        return None

    def register(self, time_ms: int, owner: int) -> None:
        waiting = self._all()
        if (time_ms, owner) not in waiting:
            waiting.add((time_ms, owner))
            heappush(self._set, (time_ms, owner))

    def delete(self, time_ms: int, owner: int) -> None:
        self._all().discard((time_ms, owner))

    def left(self) -> list[tuple[int, int]]:
        """Take all the others out."""
        found = []
        while (timer := self.take()) is not None:
            found.append(timer[:2])
        return found

    def _all(self) -> set[tuple[int, int]]:
        if self._waiting is None:
            self._waiting = set(zip(self._times[self._next :], self._owners[self._next :], strict=True))
            self._key_of = dict(zip(self._owners, self.keys, strict=True))
        return self._waiting


class RowTimers:
    """Registers and fires the timers of one operator in one subtask.

    Takes out many timers at once, which is cheap, and fires them one by one. Those that a fired timer sets or deletes
    among them count at once.
    """

    def __init__(self, keyed: KeyedBackend) -> None:
        self._keyed = keyed
        self._timers = keyed.timers()
        self._bulk: _Bulk | None = None

    def register(self, domain: TimeDomain, time_ms: int) -> None:
        """Set a timer for the current key."""
        bulk = self._bulk
        if bulk is not None and time_ms <= bulk.last_ms and domain is bulk.domain:
            bulk.register(time_ms, self._owner())
        else:
            self._timers.register(domain, time_ms)

    def delete(self, domain: TimeDomain, time_ms: int) -> None:
        """Delete a timer of the current key."""
        bulk = self._bulk
        if bulk is not None and time_ms <= bulk.last_ms and domain is bulk.domain:
            bulk.delete(time_ms, self._owner())
        else:
            self._timers.delete(domain, time_ms)

    def _owner(self) -> int:
        _, owner = self._keyed.selection.current()
        return owner

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
        while limit is None or fired < limit:
            due = self._timers.due(domain, until_ms, _LARGEST_BULK)
            if due is None:
                return
            bulk = _Bulk(domain, due, self._keyed.selection.begin(due.rows))
            fired += self._fire(bulk, call, None if limit is None else limit - fired)
        if domain is not TimeDomain.PROCESSING:
            raise UserCodeError(
                f"{fired} timers have fired after the end of the data, and keep setting more; check "
                "context.has_ended in on_timer and set none then"
            )

    def _fire(self, bulk: _Bulk, call: Callable[[int, Any], None], limit: int | None) -> int:
        """Returns how many have fired. Puts back those beyond the limit."""
        selection, fired = self._keyed.selection, 0
        self._bulk = bulk
        try:
            while limit is None or fired < limit:
                timer = bulk.take()
                if timer is None:
                    break
                time_ms, selection.owner, key = timer
                call(time_ms, key)
                fired += 1
        finally:
            self._bulk = None
        for time_ms, selection.owner in bulk.left():
            self._timers.register(bulk.domain, time_ms)
        selection.end()
        return fired
