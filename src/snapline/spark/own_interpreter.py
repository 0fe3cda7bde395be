"""Which Python runs the tasks."""

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
    """Within it, tasks that are made in local mode run the driver's own Python, unless the user has named another.

    Spark's default is whatever `python3` is on the path, which in a virtual environment that was not activated is not
    the one that has the packages.
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
