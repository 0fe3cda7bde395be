"""A session for one job that the user has started without one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from snapline.spark.embedded_spark import check_java


@contextmanager
def own_session(name: str | None, master: str | None) -> Iterator[SparkSession]:
    """A session that ends with the block. What is None is left to settings from outside.

    Raises `ConfigurationError` without a suitable Java.
    """
    check_java(os.environ)
    builder = SparkSession.builder
    if name is not None:
        builder = builder.appName(name)
    if master is not None:
        # Spark's own progress bar, for a stage that never ends, would write over the progress of the job.
        builder = builder.master(master).config("spark.ui.showConsoleProgress", "false")
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
