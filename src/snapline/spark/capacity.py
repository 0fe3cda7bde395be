"""Task slots of a Spark application, and their reservations by Snapline jobs."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from snapline.errors import ConfigurationError

POLL_S = 0.1
EXECUTORS_TIMEOUT_S = 10.0
"""How long executors of a new application may take to register."""

_guard = threading.Lock()
_held: weakref.WeakKeyDictionary[object, tuple[str, int]] = weakref.WeakKeyDictionary()


def task_slots(context: Any) -> int:
    """Returns how many tasks can run at once on the executors registered now."""
    scala = context._jsc.sc()
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def is_local(context: Any) -> bool:
    """Whether driver and tasks share one JVM."""
    return str(context.master).partition("[")[0] == "local"


def reserve(context: Any, holder: object, slots: int) -> None:
    """Reserve slots for `holder`, replacing its reservation. Raises `ConfigurationError` if there are not enough.

    Held until `give_back`, or until `holder` is garbage-collected.
    """
    deadline_s = time.monotonic() + (0 if is_local(context) else EXECUTORS_TIMEOUT_S)
    while True:
        with _guard:
            others = [there for other, there in _held.items() if other is not holder]
            held = sum(count for application, count in others if application == context.applicationId)
            available = task_slots(context)
            if slots <= available - held:
                _held[holder] = (context.applicationId, slots)
                return
        if time.monotonic() >= deadline_s:
            raise ConfigurationError(_too_few(context, slots, available, held))
        time.sleep(POLL_S)


def give_back(holder: object) -> None:
    with _guard:
        _held.pop(holder, None)


def _too_few(context: Any, slots: int, available: int, held: int) -> str:
    others = f", and other jobs of Snapline hold {held} of them" if held else ""
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
