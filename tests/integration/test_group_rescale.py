"""Functions over groups, with and without state, go on at another parallelism, in both state backends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from tests import sql_kit as kit

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.contracts.operator import Operator
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.sql.operators.group_states import StatefulGroups
from snapline.sql.operators.python_groups import CompleteGroups, FunctionOfGroup
from snapline.sql.operators.udf_frames import FrameSettings
from snapline.sql.plans.python_functions import PythonFunction
from snapline.testing import ThreadCluster

SCHEMA = pa.schema([("window", kit.WINDOW), ("user", pa.string()), ("at", kit.TIME)])
RESULT = pa.schema([("user", pa.string()), ("n", pa.int64())])
USERS = [*(f"user-{number}" for number in range(20)), None]


def rows(start: int, end: int, users: list[str | None]) -> pa.Table:
    """A row of each user for each second."""
    made = []
    for second in range(start, end):
        window = {"start": kit.second(second // 10 * 10), "end": kit.second(second // 10 * 10 + 10)}
        made += [{"window": window, "user": user, "at": kit.second(second)} for user in users]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def in_all(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"user": [key[1]], "n": [len(frame)]})


def counted(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    n = state.get[0] if state.exists else 0
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "n": [n]})
        return
    for frame in frames:
        n += len(frame)
        newest = frame["at"].max()
    state.update((n,))
    state.setTimeoutTimestamp(int(newest.timestamp() * 1000) + 20_000)


def packed(function: Any) -> PythonFunction:
    return PythonFunction(cloudpickle.dumps((function, None)), "3.11", ())


def operator(kind: str, layout: KeyLayout) -> Operator:
    schema = layout.schema(SCHEMA)
    if kind == "groups":
        call = FunctionOfGroup(packed(in_all), "in_all", 201, SCHEMA.names, 2, RESULT, FrameSettings())
        return CompleteGroups(schema, layout.key_columns, "window", call)
    return StatefulGroups(
        packed(counted),
        "counted",
        schema,
        groups=["user"],
        data=["at"],
        names=["at"],
        state=pa.struct([("n", pa.int64())]),
        result=RESULT,
        timeout=GroupStateTimeout.EventTimeTimeout,
        time="at",
        has_watermark=True,
        settings=FrameSettings(),
    )


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
@pytest.mark.parametrize("kind", ["groups", "state"])
def test_groups_move_between_subtasks(tmp_path: Path, kind: str, backend: str) -> None:
    (tmp_path / "in").mkdir()

    def started(parallelism: int) -> sl.JobHandle:
        checkpoints = sl.Checkpoints(interval="1h", storage=tmp_path / "checkpoints")
        execution = sl.Execution(metrics_interval="50ms", state_backend=backend)
        job = sl.Job("groups", parallelism=parallelism, checkpoints=checkpoints, execution=execution)
        source = sl.sources.Files(tmp_path / "in", schema=SCHEMA, watch="1h")
        stream = job.source(source, uid="rows", parallelism=1, watermarks=sl.Watermarks("at"))
        layout = KeyLayout(SCHEMA, ["window", "user"] if kind == "groups" else ["user"])
        keyed = stream.apply(AddKeys(layout), schema=layout.schema(SCHEMA)).key_by(*layout.key_columns)
        keyed.apply(operator(kind, layout), "groups", schema=RESULT).sink(sl.sinks.Files(tmp_path / "out"), uid="sink")
        return job.start(ThreadCluster())

    def process(handle: sl.JobHandle, name: str, table: pa.Table) -> None:
        pq.write_table(table, tmp_path / "in" / f".{name}")
        (tmp_path / "in" / f".{name}").rename(tmp_path / "in" / f"{name}.parquet")
        handle.process_available("60s")

    two = started(2)
    process(two, "first", rows(1, 25, USERS))
    two.suspend()
    four = started(4)
    process(four, "second", rows(25, 40, USERS))
    process(four, "last", rows(100, 101, ["somebody"]))
    four.cancel()
    found = Counter((row["user"], row["n"]) for row in read_files(tmp_path / "out").to_pylist())
    if kind == "groups":
        assert found == Counter((user, n) for user in USERS for n in (9, 10, 10, 10))
    else:
        assert found == Counter((user, 39) for user in USERS)
