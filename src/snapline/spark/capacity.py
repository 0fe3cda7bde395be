"""Task slots of a Spark application, and their reservations by Snapline jobs."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from snapline.errors import ConfigurationError

POLL_S = 0.1
SETTLED_S = 5.0
"""A standalone cluster starts its executors together: this long after the last one, no other is expected."""

FIRST_LINE_S = 2.0
LINE_INTERVAL_S = 5.0
"""How often a wait for executors is logged, and after what time first."""

_log = logging.getLogger(__name__)
_guard = threading.Lock()
_held: weakref.WeakKeyDictionary[object, tuple[str, int]] = weakref.WeakKeyDictionary()


def task_slots(context: Any) -> int:
    """Returns how many tasks can run at once on the executors registered now."""
    scala = context._jsc.sc()
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def executors(context: Any) -> int:
    """Returns how many executors are registered now."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def is_local(context: Any) -> bool:
    """Whether driver and tasks share one JVM."""
    return str(context.master).partition("[")[0] == "local"


def reserve(context: Any, holder: object, slots: int, timeout_s: float) -> None:
    """Reserve slots for `holder`, replacing its reservation. Raises `ConfigurationError` if there are not enough.

    Waits up to `timeout_s` for executors to register, except in local mode. Held until `give_back`, or until `holder`
    is garbage-collected.
    """
    wait = ExecutorWait(context, slots, 0.0 if is_local(context) else timeout_s)
    while True:
        with _guard:
            others = [there for other, there in _held.items() if other is not holder]
            held = sum(count for application, count in others if application == context.applicationId)
            available = task_slots(context)
            if slots <= available - held:
                _held[holder] = (context.applicationId, slots)
                return
        if not wait.goes_on(available):
            raise ConfigurationError(_too_few(context, slots, available, held, wait.waited_s))
        time.sleep(POLL_S)


def give_back(holder: object) -> None:
    with _guard:
        _held.pop(holder, None)


class ExecutorWait:
    """A wait for executors, logged while it lasts."""

    def __init__(
        self,
        context: Any,
        slots: int,
        timeout_s: float,
        *,
        is_start: bool = True,
        time_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._slots = slots
        self._timeout_s = timeout_s
        # After a loss Spark starts one executor at a time.
        self._may_settle = is_start and str(context.master).startswith(("spark:", "local-cluster"))
        self._time_s = time_s
        self._began_s = self._changed_s = time_s()
        self._available = 0
        self._next_line_s = self._began_s + FIRST_LINE_S

    @property
    def waited_s(self) -> float:
        return self._time_s() - self._began_s

    def goes_on(self, available: int) -> bool:
        """Whether to wait on, with room for this many tasks."""
        now_s = self._time_s()
        if available != self._available:
            self._available, self._changed_s = available, now_s
        is_settled = self._may_settle and available > 0 and now_s - self._changed_s >= SETTLED_S
        if is_settled or now_s - self._began_s >= self._timeout_s:
            return False
        if now_s >= self._next_line_s:
            self._next_line_s = now_s + LINE_INTERVAL_S
            _log.warning(
                "waiting for executors for %.0f s, up to %g s (executors_timeout): the job needs %d slots, and Spark "
                "runs %d tasks at once on %d executors",
                now_s - self._began_s, self._timeout_s, self._slots, available, executors(self._context),
            )  # fmt: skip
        return True


def _too_few(context: Any, slots: int, available: int, held: int, waited_s: float) -> str:
    others = f", and other jobs of Snapline hold {held} of them" if held else ""
    if not is_local(context) and available == 0:
        return (
            f"the job needs {slots} slots, and Spark has no executors after {waited_s:.0f} s; check that "
            f"{context.master} has workers with free cores and memory (spark.executor.cores, spark.executor.memory), "
            "or wait longer with Execution(executors_timeout=...)"
        )
    more = (
        f"use a larger master such as local[{held + slots}]"
        if is_local(context)
        else "add executors or cores (spark.executor.instances, spark.executor.cores, spark.cores.max)"
    )
    return (
        f"the job needs {slots} slots at the same time; Spark runs at most {available} tasks at once{others}. "
        f"Lower the parallelism to {max(available - held, 0)}, or {more}"
        if available > held
        else f"the job needs {slots} slots, and there are none left: Spark runs at most {available} tasks at "
        f"once{others}; {more}"
    )
