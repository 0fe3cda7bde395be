"""The demo's job: it counts clicks per user and writes the counts to files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.api.job import Job
from snapline.config import Checkpoints, Execution, ExponentialDelay
from snapline.connectors.files.file_sink import Files
from snapline.connectors.rate import Rate
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering

SOURCE = "clicks"
"""Uid of the source, and name of its tasks in the metrics."""

USERS = (
    *("ada", "grace", "edsger", "barbara", "donald", "frances", "alan", "radia", "tony", "margaret"),
    *("niklaus", "katherine", "dennis", "lynn", "leslie", "adele", "john", "karen", "robin", "shafi"),
)
"""Users, those with most clicks first."""

CHECKPOINT_INTERVAL = "1s"
CLICK = pa.schema([("id", pa.int64()), ("user", pa.string())])

_DRAWS = 1000


def clicks_job(checkpoints: Path, output: Path, *, rows: int, rows_per_second: float, parallelism: int) -> Job:
    """Returns a job that ends after `rows` clicks. Its output can be checked with `devtools.kit.exactly_once.prove`."""
    job = Job(
        "clicks",
        parallelism=parallelism,
        checkpoints=Checkpoints(interval=CHECKPOINT_INTERVAL, storage=str(checkpoints)),
        execution=Execution(metrics_interval="250ms"),
        restart=ExponentialDelay(initial_backoff="100ms", max_backoff="1s"),
    )
    (
        job.source(Rate(rows_per_second, rows=rows, users=_DRAWS, batch_rows=1000), uid=SOURCE)
        .map_batches(named, schema=CLICK, uid="named")
        .key_by("user")
        .apply(Numbering(), uid="counts", schema=NUMBERED, has_state=True)
        .sink(Files(output), uid="results")
    )
    return job


def named(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Adds who clicked: maps an even draw over a thousand to a few names, of which some click far more than others."""
    draws = pc.utf8_slice_codeunits(batch.column("user"), len("user-")).cast(pa.int64())
    share = draws.to_numpy(zero_copy_only=False) / _DRAWS
    users = pa.array(USERS).take(pa.array((share**1.6 * len(USERS)).astype(np.int64)))
    return pa.RecordBatch.from_arrays([batch.column("id"), users], schema=CLICK)
