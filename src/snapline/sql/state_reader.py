"""Spark's format `statestore` for checkpoints of queries that run on Snapline."""

from __future__ import annotations

import functools
import os
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader

from snapline.errors import ConfigurationError
from snapline.protocol.snapshot import Snapshot
from snapline.spark.state_frames import newest_snapshot, read_state
from snapline.storage.objects.file_objects import FileObjects

_FORMATS = ("statestore", "state-metadata")
_OPTIONS = ("path", "statevarname", "flattencollectiontypes")
_PROCESSOR = "process-"
"""What the uid of a processor begins with; its keys follow."""


def install_state_reader(job_name: str) -> None:
    """From now on `spark.read.format("statestore")` also reads checkpoints of queries, whose ids begin with `job_name`.

    Spark has no other door for it: it refuses a data source of ours with the name of one of its own. All other readers,
    and checkpoints that Spark wrote, are read as before. Further calls do nothing.
    """
    spark_format = DataFrameReader.format
    if hasattr(spark_format, "__wrapped__"):
        return

    @functools.wraps(spark_format)
    def format_or_state(reader: DataFrameReader, source: str) -> DataFrameReader:
        chosen = spark_format(reader, source)
        return StateReader(chosen, source.lower(), job_name) if source.lower() in _FORMATS else chosen

    DataFrameReader.format = format_or_state  # type: ignore[method-assign, assignment]


class StateReader(DataFrameReader):
    """Spark's reader of state, until the path is one of Snapline's.

    Options for these: `path`, `stateVarName`, `flattenCollectionTypes`. The newest checkpoint is read.
    """

    def __init__(self, reader: DataFrameReader, source: str, job_name: str) -> None:
        self._jreader = reader._jreader
        self._spark: SparkSession = reader._spark
        self._source = source
        self._job_name = job_name
        self._own_options: dict[str, Any] = {}

    def option(self, key: str, value: Any) -> DataFrameReader:
        self._own_options[key.lower()] = value
        return super().option(key, value)

    def options(self, **options: Any) -> DataFrameReader:
        for key, value in options.items():
            self.option(key, value)
        return self

    def load(
        self, path: str | list[str] | None = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> DataFrame:
        self.options(**options)
        if isinstance(path, str):
            self._own_options["path"] = path
        job = self._job_directory()
        if job is None or format is not None:
            return super().load(path, format, schema)
        unknown = sorted(self._own_options.keys() - set(_OPTIONS))
        if self._source != "statestore" or unknown:
            asked = f"with the options {', '.join(unknown)}" if unknown else f"as {self._source}"
            raise ConfigurationError(
                f"{self._own_options['path']} holds checkpoints of Snapline, which cannot be read {asked}; use "
                "format('statestore') with the options path, stateVarName and flattenCollectionTypes, or "
                f"`snapline inspect {job}`"
            )
        return self._state(job)

    def _job_directory(self) -> str | None:
        """The directory of the query, or None if there is none of Snapline."""
        place = self._own_options.get("path")
        if not isinstance(place, str):
            return None
        place = place.rstrip("/") if "://" in place else os.path.abspath(place)
        first = {info.path.removeprefix(f"{place}/").split("/")[0] for info in FileObjects().list(place)}
        jobs = sorted(name for name in first if name.startswith(f"{self._job_name}-"))
        return f"{place}/{jobs[0]}" if jobs else None

    def _state(self, job: str) -> DataFrame:
        snapshot = newest_snapshot(FileObjects(), job)
        name = self._own_options.get("statevarname")
        uid = _processor(snapshot)
        if name is None:
            raise ConfigurationError(f"the format statestore needs option('stateVarName', ...): a state of {uid!r}")
        return read_state(
            self._spark,
            job,
            f"{uid}/{name}",
            key_columns=[uid.removeprefix(_PROCESSOR)],  # the columns of several are named in the snapshot
            flatten=str(self._own_options.get("flattencollectiontypes", True)).lower() == "true",
        )


def _processor(snapshot: Snapshot) -> str:
    uids = [uid for uid in snapshot.operators if uid.startswith(_PROCESSOR)]
    if len(uids) != 1:
        raise ConfigurationError(
            f"the query has {len(uids)} operators with states of its own; the format statestore reads those of one: "
            "use snapline.spark.state_frames.read_state"
        )
    return uids[0]
