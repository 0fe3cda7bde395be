"""A query that ends when everything is read, killed in the middle, goes on where its last checkpoint was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from snapline.connectors.files.file_sink import read_files

FILES = 30
ROWS = 200
DEADLINE_S = 120.0

PROGRAM = """
import sys, time
from pathlib import Path
import snapline as sl
from snapline.sql.query import StreamingQuery
from snapline.testing import ThreadCluster

place, pause_s = Path(sys.argv[1]), float(sys.argv[2])

def slowly(batch):
    time.sleep(pause_s)
    return batch

job = sl.Job("files", id="files", checkpoints=sl.Checkpoints(interval="50ms", storage=place / "checkpoints"))
rows = job.source(sl.sources.Files(place / "in", watch="1s"), uid="rows")
rows.map_batches(slowly, schema=rows.schema, uid="slowly").sink(sl.sinks.Files(place / "out"), uid="sink")
plan = job.explain()
query = StreamingQuery(job.start(ThreadCluster()), plan, name=None, is_stored=True, ends_when_read=True)
query.awaitTermination()
"""


def program(place: Path, pause_s: float) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(place), str(pause_s)]


def test_a_killed_run_is_finished_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for number in range(FILES):
        ids = list(range(number * ROWS, (number + 1) * ROWS))
        pq.write_table(pa.table({"id": ids}), tmp_path / "in" / f"{number:03d}.parquet")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    first = subprocess.Popen(program(tmp_path, 0.3), env=environment, start_new_session=True)
    try:
        deadline_s = time.monotonic() + DEADLINE_S
        while not list((tmp_path / "out").glob("*.parquet")):
            assert first.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    found = read_files(tmp_path / "out")["id"].to_pylist()
    assert 0 < len(found) < FILES * ROWS, "killed in the middle"
    subprocess.run(program(tmp_path, 0), env=environment, check=True, timeout=DEADLINE_S)
    assert sorted(read_files(tmp_path / "out")["id"].to_pylist()) == list(range(FILES * ROWS))
