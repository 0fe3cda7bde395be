"""Replaces the start of queries in PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

import snapline as sl


@contextmanager
def snapline_starts() -> Iterator[None]:
    """`writeStream` is Snapline's in this block."""
    with mock.patch.object(ClassicDataFrame, "writeStream", property(sl.write_stream)):
        yield
