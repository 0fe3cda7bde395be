"""Replaces the start of queries with `transformWithState`, and what reads the state they leave, in PySpark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from benchmarks.spark_tests.query import QUERIES, Query, run_batch
from benchmarks.spark_tests.recorded import Call, RecordedFrame, RecordedWriter
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.group import GroupedData
from pyspark.sql.readwriter import DataFrameReader

_KEYS = "_snapline_keys"


@contextmanager
def snapline_starts() -> Iterator[None]:
    """Queries with a stateful processor are run by Snapline in this block."""
    group_by = ClassicDataFrame.groupBy

    def remember(frame: ClassicDataFrame, *columns: Any) -> GroupedData:
        made = group_by(frame, *columns)
        setattr(made, _KEYS, tuple(columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns))
        return made

    reader_of = DataFrameReader.format

    def read(reader: DataFrameReader, source: str) -> Any:
        return StateReader() if source == "statestore" else reader_of(reader, source)

    with (
        mock.patch.object(ClassicDataFrame, "groupBy", remember),
        mock.patch.object(GroupedData, "transformWithState", _recording("transformWithState", "rows")),
        mock.patch.object(
            GroupedData, "transformWithStateInPandas", _recording("transformWithStateInPandas", "pandas")
        ),
        mock.patch.object(DataFrameReader, "format", read),
        mock.patch.object(RecordedWriter, "start_query", Query),
    ):
        yield


class StateReader:
    """In place of a reader of the format `statestore`: it reads the checkpoints of Snapline's queries."""

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}

    def option(self, name: str, value: Any) -> StateReader:
        self._options[name] = value
        return self

    def load(self) -> DataFrame:
        unknown = self._options.keys() - {"path", "stateVarName", "flattenCollectionTypes"}
        if unknown:
            raise NotImplementedError(f"checkpoints of Snapline cannot be read with the options {sorted(unknown)}")
        flatten = bool(self._options.get("flattenCollectionTypes", True))
        return QUERIES[self._options["path"]].state(self._options["stateVarName"], flatten=flatten)


def _recording(name: str, format: str) -> Callable[..., Any]:
    original = getattr(GroupedData, name)

    def record(
        groups: GroupedData,
        statefulProcessor: Any,  # noqa: N803  # PySpark's names
        outputStructType: Any,  # noqa: N803
        outputMode: str,  # noqa: N803
        timeMode: str,  # noqa: N803
        initialState: GroupedData | None = None,  # noqa: N803
        eventTimeColumnName: str = "",  # noqa: N803
    ) -> Any:
        analyzed = original(
            groups, statefulProcessor, outputStructType, outputMode, timeMode, initialState, eventTimeColumnName
        )
        call = Call(
            groups._df,
            getattr(groups, _KEYS),
            format,
            statefulProcessor,
            outputStructType,
            timeMode,
            outputMode,
            initialState,
            eventTimeColumnName or None,
            analyzed,
        )
        return RecordedFrame(call) if groups._df.isStreaming else run_batch(call)

    return record
