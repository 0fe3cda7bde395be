"""States of snapshots with the columns of Spark's state data source."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import snapline as sl
from snapline.errors import ConfigurationError, RestoreError
from snapline.spark.state_frames import read_state
from snapline.testing import ScriptedSource, ThreadCluster

ROWS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3}]


class Keeping(StatefulProcessor):
    """Keeps its rows in a state of each kind."""

    def init(self, handle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n BIGINT")
        self.list = handle.getListState("list", "n BIGINT")
        self.map = handle.getMapState("map", "name STRING", "n BIGINT", 3_600_000)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in rows:
            self.value.update((row.n,))
            self.list.appendValue((row.n,))
            self.map.updateValue(f"x{row.n}", (row.n,))
            self.handle.registerTimer(1 << 50)
            yield Row(id=row.id)


class Session:
    """Makes tables instead of DataFrames."""

    def createDataFrame(self, table: pa.Table) -> pa.Table:  # PySpark's name
        return table


SEEN: SimpleQueue[Any] = SimpleQueue()


def see(row: dict[str, Any]) -> None:
    """Called in the job, which runs in this process."""
    SEEN.put(row)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a job that was suspended."""
    directory = tmp_path_factory.mktemp("states")
    storage = sl.Checkpoints(interval=None, storage=directory)
    job = sl.Job("keeping", id="keeping", parallelism=2, checkpoints=storage)
    rows = job.source(ScriptedSource(ROWS, "id STRING, n BIGINT", ends=False), uid="rows")
    kept = rows.key_by("id").transform_with_state(Keeping(), "id STRING", time_mode="processing_time", uid="kept")
    kept.sink(sl.sinks.Foreach(see), uid="out")
    handle = job.start(ThreadCluster())
    for _ in ROWS:
        SEEN.get(timeout=60)
    handle.checkpoint(timeout="60s")
    handle.suspend(timeout="60s")
    return directory / "keeping"


def _read(place: Path, state: str, **options: Any) -> list[dict[str, Any]]:
    table: Any = read_state(Session(), place, state, key_columns=["id"], **options)  # type: ignore[arg-type]
    assert set(table.column("partition_id").to_pylist()) <= {0, 1}
    rows: list[dict[str, Any]] = table.drop_columns(["partition_id"]).to_pylist()
    return sorted(rows, key=lambda row: str(row["key"]))


def test_values_lists_and_maps_have_the_columns_of_spark(place: Path) -> None:
    a, b = {"id": "a"}, {"id": "b"}
    assert _read(place, "kept/value") == [{"key": a, "value": {"n": 3}}, {"key": b, "value": {"n": 2}}]
    assert _read(place, "kept/list") == [
        {"key": a, "list_element": {"n": 1}},
        {"key": a, "list_element": {"n": 3}},
        {"key": b, "list_element": {"n": 2}},
    ]
    entries = _read(place, "kept/map", map_key_columns=["name"])
    assert [(row["key"], row["user_map_key"], row["user_map_value"]["value"]) for row in entries] == [
        (a, {"name": "x1"}, {"n": 1}),
        (a, {"name": "x3"}, {"n": 3}),
        (b, {"name": "x2"}, {"n": 2}),
    ]
    assert all(row["user_map_value"]["ttlExpirationMs"] > 3_600_000 for row in entries)


def test_collections_can_be_read_by_key(place: Path) -> None:
    a, b = {"id": "a"}, {"id": "b"}
    assert _read(place, "kept/list", flatten=False) == [
        {"key": a, "list_value": [{"n": 1}, {"n": 3}]},
        {"key": b, "list_value": [{"n": 2}]},
    ]
    entries = _read(place, "kept/map", flatten=False, map_key_columns=["name"])
    held = [{key["name"]: value["value"]["n"] for key, value in row["map_value"]} for row in entries]
    assert held == [{"x1": 1, "x3": 3}, {"x2": 2}]


def test_what_cannot_be_read_is_refused(place: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no state 'kept/other'"):
        _read(place, "kept/other")
    with pytest.raises(ConfigurationError, match="it is a timers state"):
        _read(place, "kept/_timers")
    with pytest.raises(ConfigurationError, match="the key has one column"):
        read_state(Session(), place, "kept/value", key_columns=["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(RestoreError, match="there is nothing at"):
        _read(place / "nothing", "kept/value")
