"""The Python interpreter of tasks in local mode."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from snapline.spark.capacity import is_local

_guard = threading.Lock()


@contextmanager
def own_python(context: Any) -> Iterator[None]:
    """In this block, tasks created in local mode run the driver's own Python, unless the user has set another.

    Spark defaults to the `python3` on the path, which lacks the packages if the driver's virtual environment is not
    activated.
    """
    is_named = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if is_named or not is_local(context):
        yield
        return
    with _guard:
        before, context.pythonExec = context.pythonExec, sys.executable
        try:
            yield
        finally:
            context.pythonExec = before
