"""The history of a job beside its checkpoints on S3."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.history_script import history_job

from snapline.runtime.master.stored_job import stored_jobs
from snapline.storage.objects.file_objects import FileObjects
from snapline.testing.clusters import ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

DEADLINE_S = 120.0


def run(directory: Path, storage: str, options: dict[str, Any], completed: int) -> None:
    """Run the job until so many checkpoints are complete, those of earlier runs counted."""
    handle: Any = history_job(directory, storage=storage, storage_options=options).start(ThreadCluster())
    try:
        deadline_s = time.monotonic() + DEADLINE_S
        while handle.view().statistics.counts.completed < completed:
            assert time.monotonic() < deadline_s, handle.view()
            time.sleep(0.02)
    finally:
        handle.suspend("30s")


def test_a_history_on_s3(tmp_path: Path, s3_root: str, s3_options: dict[str, Any]) -> None:
    options, storage = {"s3": s3_options}, f"{s3_root}/jobs"
    run(tmp_path, storage, options, 2)
    run(tmp_path, storage, options, 4)
    store = FileObjects(options=options)
    (job,) = stored_jobs(store, storage)
    view = job.view().result(30)
    job.close()
    assert (view.status, view.attempt) == (JobStatus.SUSPENDED, 2)
    assert view.statistics.counts.completed >= 4
    assert view.statistics.counts.restored == 1
    assert repr(view.checkpoints.storage_options) == f"StorageOptions(s3: {' '.join(sorted(s3_options))})"
    # whoever can read it finds no secret
    (file,) = store.list(f"{storage}/clicks/monitor")
    assert s3_options["secret"].encode() not in gzip.decompress(store.read(file.path))
