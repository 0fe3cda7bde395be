"""Delta tables on S3: commits by conditional writes, credentials by reference, servers that are away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from tests.integration.delta.delta_kit import PERMIT, SIDES, begun, context, prepared, sides_job

import snapline as sl
from snapline.contracts.sink import CommitResult
from snapline.errors import ConfigurationError, TransientError
from snapline.testing import ThreadCluster

ROWS = pa.record_batch({"x": [1, 2]})


@pytest.fixture
def s3(s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> sl.S3:
    monkeypatch.setenv("TABLE_KEY", s3_options["key"])
    (tmp_path / "secret").write_text(s3_options["secret"])
    return sl.S3(
        endpoint=s3_options["endpoint_url"],
        region="us-east-1",
        key=sl.Secret.env("TABLE_KEY"),
        secret=sl.Secret.file(tmp_path / "secret"),
    )


def rows_of(path: str, s3: sl.S3) -> pa.Table:
    return deltalake.DeltaTable(path, storage_options=s3.object_store_options()).to_pyarrow_table()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_job_writes_a_table_on_s3_and_another_reads_it(tmp_path: Path, s3_root: str, s3: sl.S3, mode: str) -> None:
    path = f"{s3_root}/table"
    key = ["value", "side"] if mode == "upsert" else []
    sink = sl.sinks.Delta(path, mode=mode, key=key, storage_options=s3)
    assert sides_job(tmp_path, sink, rows=500, rate=2000).run(ThreadCluster()) is sl.JobStatus.FINISHED
    assert rows_of(path, s3).num_rows == 500 * SIDES
    job, rows = sl.Job("read"), sl.sinks.Collect()
    job.source(sl.sources.Delta(path, columns=["value"], storage_options=s3), uid="table").sink(rows, uid="rows")
    job.run(ThreadCluster())
    assert sorted(rows.table()["value"].to_pylist()) == sorted(list(range(500)) * SIDES)


@pytest.mark.slow
def test_a_zombie_on_s3_finds_the_commit_of_its_successor(s3_root: str, s3: sl.S3) -> None:
    path = f"{s3_root}/table"
    sink = begun(sl.sinks.Delta(path, storage_options=s3), ROWS)
    waiting = prepared(sink, ROWS, 1)
    zombie, successor = (sink.global_committer(context(attempt=attempt)) for attempt in (1, 2))
    assert zombie.commit(prepared(sink, ROWS, 0), PERMIT) is CommitResult.COMMITTED  # and knows this version
    assert successor.commit(waiting, PERMIT) is CommitResult.COMMITTED
    assert zombie.commit(waiting, PERMIT) is CommitResult.ALREADY_COMMITTED
    assert rows_of(path, s3).num_rows == 4


@pytest.mark.slow
def test_storage_that_is_away_is_told_without_secrets(tmp_path: Path, s3_root: str, s3: sl.S3) -> None:
    path = f"{s3_root}/table"
    sink = begun(sl.sinks.Delta(path, storage_options=s3), ROWS)
    waiting = prepared(sink, ROWS, 1)
    away = sl.S3(endpoint="http://127.0.0.1:9", region="us-east-1", key="some-key", secret="some-secret-text")
    for make in (sl.sources.Delta, lambda *a, **b: sl.sinks.Delta(*a, **b).check_access()):
        with pytest.raises(ConfigurationError, match="cannot be read") as refused:
            make(path, storage_options=away)
        assert "some-secret-text" not in str(refused.value)
    committer = sl.sinks.Delta(path, storage_options=away).global_committer(context())
    assert committer.commit(waiting, PERMIT) is CommitResult.RETRY_LATER
    last = type(waiting)(waiting.name, waiting.checkpoint_id, waiting.payload, retries=9)
    with pytest.raises(TransientError, match="cannot be read"):
        committer.commit(last, PERMIT)
    assert sink.global_committer(context()).commit(waiting, PERMIT) is CommitResult.COMMITTED, "nothing is lost"
