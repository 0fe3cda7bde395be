"""Suspends jobs when the program that drives them ends while they run."""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import Any

from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.master_handle import MasterHandle
from snapline.types import JobStatus

SUSPEND_TIMEOUT = "20s"

_log = JobLogger(__name__)
_handles: weakref.WeakSet[MasterHandle] = weakref.WeakSet()
_guard = threading.Lock()
_is_registered = False


def suspend_at_exit(handle: MasterHandle) -> None:
    """Suspend the job if the program ends first: its slots are released and another driver can continue it."""
    global _is_registered  # noqa: PLW0603  # once for the process
    with _guard:
        _handles.add(handle)
        if _is_registered:
            return
        _is_registered = True
    # Runs before `concurrent.futures` shuts down, after which nothing can be started.
    register: Any = getattr(threading, "_register_atexit", atexit.register)
    register(_suspend_all)


def _suspend_all() -> None:
    for handle in list(_handles):
        status = handle.status()
        if status.is_globally_terminal or status is JobStatus.SUSPENDED:
            continue
        _log.warning(
            "the program ends while job %s runs: it is suspended and continues from its last checkpoint when it is "
            "started again; to wait for its end call wait(), or use run()",
            handle.name,
            job=handle.name,
            job_id=handle.id,
        )
        try:
            handle.suspend(SUSPEND_TIMEOUT)
        except TimeoutError as error:
            name = handle.name
            _log.error("job %s could not be suspended in time: %s", name, error, job=name, job_id=handle.id)
