"""Checks the executors' Python before a job starts: what is wrong there would fail the job for good."""

from __future__ import annotations

import importlib.util
import logging
import secrets
import threading
from collections.abc import Sequence
from typing import Any

from snapline.config import Execution, StateBackend
from snapline.errors import ConfigurationError
from snapline.spark.own_interpreter import own_python
from snapline.spark.spark_failures import describe

PACKAGES = ("cloudpickle", "fsspec", "msgspec", "numpy", "pyarrow")
TIMEOUT_S = 20.0
"""If all task slots are busy the check is given up; the job then finds out by itself."""

_EXTRAS = {StateBackend.ROCKSDB: "rocksdict"}

_log = logging.getLogger(__name__)
_guard = threading.Lock()
_passed: set[tuple[str, ...]] = set()


def check_python(context: Any, execution: Execution) -> None:
    """Raises `ConfigurationError` if the executors' Python can't run the job. Checks once per application.

    Runs one small task, whose Python worker the job can reuse.
    """
    extra = _EXTRAS.get(execution.state_backend)
    packages = PACKAGES if extra is None else (*PACKAGES, extra)
    key = (str(context.applicationId), str(context.pythonExec), *packages)
    with _guard:
        if key in _passed:
            return
    group = f"snapline-preflight-{secrets.token_hex(4)}"
    errors: list[Exception] = []

    def check() -> None:
        try:
            context.setJobGroup(group, "Snapline: check the executors' Python")
            probe = context.parallelize([packages], 1).map(look_for_packages)
            with own_python(context):
                probe._jrdd  # noqa: B018  # evaluated here, where the interpreter is set
            probe.collect()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=check, name=group, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    if thread.is_alive():
        context.cancelJobGroup(group)
        _log.warning("could not check the executors' Python: no task slot was free within %g s", TIMEOUT_S)
        return
    if errors:
        message, is_fatal = describe(errors[0])
        if is_fatal:
            raise ConfigurationError(f"Spark's executors cannot run the job: {message}")
        _log.warning("could not check the executors' Python: %s", message)
        return
    with _guard:
        _passed.add(key)


def look_for_packages(packages: Sequence[str]) -> None:
    """Runs in a task; that it can be unpickled there shows that Snapline is installed.

    Imports nothing: libraries start threads, which would stay in Spark's worker.
    """
    for name in packages:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
