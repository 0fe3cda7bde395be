"""How many slots an application has, and how many of them jobs of Snapline hold."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from snapline.errors import ConfigurationError

POLL_S = 0.1
EXECUTORS_TIMEOUT_S = 10.0
"""How long executors of a fresh application may take to register."""

_guard = threading.Lock()
_held: weakref.WeakKeyDictionary[object, tuple[str, int]] = weakref.WeakKeyDictionary()


def task_slots(context: Any) -> int:
    """How many tasks may run at the same time, on all executors that are there now."""
    scala = context._jsc.sc()
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def is_local(context: Any) -> bool:
    """Whether driver and tasks share one JVM."""
    return str(context.master).partition("[")[0] == "local"


def reserve(context: Any, holder: object, slots: int) -> None:
    """Keep so many slots for `holder`, in place of what it had; `ConfigurationError` if there are not enough.

    They are its own until `give_back`, or until nobody knows it any more.
    """
    deadline_s = time.monotonic() + (0 if is_local(context) else EXECUTORS_TIMEOUT_S)
    while True:
        with _guard:
            held = _held_by_others(context.applicationId, holder)
            there_are = task_slots(context)
            if slots <= there_are - held:
                _held[holder] = (context.applicationId, slots)
                return
        if time.monotonic() >= deadline_s:
            raise ConfigurationError(_too_few(context, slots, there_are, held))
        time.sleep(POLL_S)


def give_back(holder: object) -> None:
    with _guard:
        _held.pop(holder, None)


def _held_by_others(application: str, holder: object) -> int:
    return sum(slots for other, (where, slots) in _held.items() if where == application and other is not holder)


def _too_few(context: Any, slots: int, there_are: int, held: int) -> str:
    others = f", and other jobs of Snapline hold {held} of them" if held else ""
    more = (
        f"use a larger master such as local[{held + slots}]"
        if is_local(context)
        else "add executors or cores (spark.executor.instances, spark.executor.cores, spark.cores.max)"
    )
    return (
        f"the job needs {slots} slots at the same time; Spark runs at most {there_are} tasks at once{others}. "
        f"Lower the parallelism to {max(there_are - held, 0)}, or {more}"
        if there_are > held
        else f"the job needs {slots} slots, and there are none left: Spark runs at most {there_are} tasks at "
        f"once{others}; {more}"
    )
