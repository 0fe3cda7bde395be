"""Replaces the start of queries in PySpark, and what reads the state they leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.readwriter import DataFrameReader

import snapline as sl
from snapline.spark.state_frames import read_state
from snapline.state.inspection.job_directory import inspect_path
from snapline.storage.objects.file_objects import FileObjects

_PROCESSOR = "process-"
"""What the uid of a processor begins with; its keys follow."""


@contextmanager
def snapline_starts(*, reads_state: bool) -> Iterator[None]:
    """`writeStream` is Snapline's in this block; with `reads_state` the format `statestore` reads its checkpoints."""
    format_of = DataFrameReader.format

    def read(reader: DataFrameReader, source: str) -> Any:
        return StateReader(reader._spark) if source == "statestore" else format_of(reader, source)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(ClassicDataFrame, "writeStream", property(sl.write_stream)))
        if reads_state:
            stack.enter_context(mock.patch.object(DataFrameReader, "format", read))
        yield


class StateReader:
    """In place of a reader of the format `statestore`: it reads the newest checkpoint of a query of Snapline."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._options: dict[str, Any] = {}

    def option(self, name: str, value: Any) -> StateReader:
        self._options[name] = value
        return self

    def load(self) -> DataFrame:
        unknown = self._options.keys() - {"path", "stateVarName", "flattenCollectionTypes"}
        if unknown:
            raise NotImplementedError(f"checkpoints of Snapline cannot be read with the options {sorted(unknown)}")
        (job,) = Path(self._options["path"]).glob("query-*")
        found: Any = inspect_path(FileObjects(), str(job))
        snapshot: Any = inspect_path(FileObjects(), found.restore_from)
        (uid,) = (name for name in snapshot.operators if name.startswith(_PROCESSOR))
        return read_state(
            self._session,
            job,
            f"{uid}/{self._options['stateVarName']}",
            key_columns=uid.removeprefix(_PROCESSOR).split("-"),
            flatten=bool(self._options.get("flattenCollectionTypes", True)),
        )
