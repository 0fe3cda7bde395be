"""Results that come back: rows of the last start, and whole streams in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.testing.clusters import ThreadCluster

ROWS = [{"user": "ann", "n": 1}, {"user": "bob", "n": 2}, {"user": "ann", "n": 3}]


def rows(job: sl.Job, given: list[dict[str, Any]] | None = None) -> sl.Stream:
    return job.source(sl.sources.Iterator(ROWS if given is None else given, schema="user STRING, n BIGINT"), "rows")


def test_a_second_run_does_not_add_to_the_first() -> None:
    job, collected = sl.Job("twice"), sl.sinks.Collect()
    rows(job).sink(collected, "out")
    for _ in range(2):
        job.run(ThreadCluster())
        assert collected.table().to_pylist() == ROWS


def test_a_stream_is_collected_in_one_call(tmp_path: Path) -> None:
    job = sl.Job("one", parallelism=2)
    stream = rows(job)
    other = sl.sinks.Collect()
    stream.sink(other, "other")
    before = job.nodes
    counts = stream.key_by("user").aggregate(uid="counts", total=sl.sum("n"))
    found = counts.collect(ThreadCluster())
    assert isinstance(found, pa.Table)
    assert {row["user"]: row["total"] for row in found.to_pylist()} == {"ann": 4, "bob": 2}
    assert other.table().num_rows == 3
    assert len(job.nodes) == len(before) + 1  # the aggregate, and no sink of the call's own
    stream.collect(ThreadCluster(), directory=tmp_path, uid="again")
    assert any(tmp_path.rglob("*.arrow"))


def test_what_cannot_be_collected_is_refused() -> None:
    job = sl.Job("endless")
    stream = job.source(sl.sources.Rate(rows_per_second=10), "ticks")
    with pytest.raises(ConfigurationError, match="collect: the source 'ticks' never ends"):
        stream.collect(ThreadCluster())
    assert len(job.nodes) == 1
    with pytest.raises(sl.JobFailedError, match="more than 2 rows"):
        rows(sl.Job("many")).collect(ThreadCluster(), max_rows=2)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("emit_every", [None, "1s"])
def test_null_keys_name_the_column_and_the_operator(parallelism: int, emit_every: str | None) -> None:
    stream = rows(sl.Job("nulls", parallelism=parallelism), [{"user": "ann", "n": 1}, {"user": None, "n": 2}])
    counts = stream.key_by("user").aggregate(uid="counts", n=sl.count(), emit_every=emit_every)
    with pytest.raises(sl.JobFailedError, match="aggregate 'counts': the key column 'user' has nulls"):
        counts.collect(ThreadCluster())
