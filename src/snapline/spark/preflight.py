"""A look at the executors before a job is started on them: what is wrong there would end it for good."""

from __future__ import annotations

import importlib.util
import logging
import secrets
import threading
from typing import Any

from snapline.errors import ConfigurationError
from snapline.spark.own_interpreter import own_python
from snapline.spark.spark_failures import describe

PACKAGES = ("cloudpickle", "fsspec", "msgspec", "numpy", "pyarrow")
TIMEOUT_S = 20.0
"""When all tasks of the application are busy the answer takes too long; the job then finds out by itself."""

_log = logging.getLogger(__name__)
_guard = threading.Lock()
_passed: set[tuple[str, str]] = set()


def check_python(context: Any) -> None:
    """`ConfigurationError` if the executors' Python can't run Snapline. Looks once for each application.

    It takes one small task, whose Python worker the job then finds warm.
    """
    looked_at = (str(context.applicationId), str(context.pythonExec))
    with _guard:
        if looked_at in _passed:
            return
    group = f"snapline-preflight-{secrets.token_hex(4)}"
    errors: list[Exception] = []

    def look() -> None:
        try:
            context.setJobGroup(group, "Snapline: look at the executors' Python")
            looked = context.parallelize([0], 1).map(look_for_packages)
            with own_python(context):
                looked._jrdd  # noqa: B018  # made here, with the interpreter that is set now
            looked.collect()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=look, name=group, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    if thread.is_alive():
        context.cancelJobGroup(group)
        return
    if errors:
        message, is_fatal = describe(errors[0])
        if is_fatal:
            raise ConfigurationError(f"Spark's executors cannot run the job: {message}")
        _log.warning("the executors' Python could not be looked at: %s", message)
        return
    with _guard:
        _passed.add(looked_at)


def look_for_packages(number: int) -> int:
    """Runs in a task; that it can be unpacked there shows that Snapline is there too.

    Nothing is imported: libraries start threads, which would stay in Spark's worker.
    """
    for name in PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return number
