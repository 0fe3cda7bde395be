"""From a second terminal: jobs under spark-submit on a standalone cluster, killed drivers, and `snapline run`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from tests.integration.cli.command_kit import Place

from snapline.config import Checkpoints
from snapline.devtools.kit.exactly_once import numbering_job
from snapline.devtools.kit.processes import descendants
from snapline.devtools.servers.standalone_cluster import StandaloneCluster
from snapline.testing import ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

DEADLINE_S = 600.0
ROWS = 60_000
"""More than the driver that is killed and its successor get to see."""

SUBMITTED = """
import sys
from pyspark.sql import SparkSession
from snapline.config import Checkpoints
from snapline.devtools.kit.exactly_once import numbering_job

directory, rows = sys.argv[1:]
made = numbering_job(
    "clicks per user", directory, id="first", rows=int(rows), rows_per_second=200, parallelism=2,
    checkpoints=lambda storage: Checkpoints(interval="300ms", storage=storage, savepoint_dir=f"{directory}/sp"),
)
if __name__ == "__main__":
    print("ENDED", made.job.run(SparkSession.builder.getOrCreate()).value, flush=True)
"""


class Application:
    """A program under spark-submit. The driver is a Python process below the JVM."""

    def __init__(self, place: Place, cluster: StandaloneCluster) -> None:
        script = place.directory / "submitted.py"
        script.write_text(SUBMITTED)
        self.log = place.directory / "spark-submit.log"
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", cluster.url]
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "600m",
        }.items():
            command += ["--conf", f"{name}={value}"]
        environment = {**cluster.environment, **place.environment, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment["PYSPARK_PYTHON"] = sys.executable
        environment.pop("PYTHONWARNINGS")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(script), str(place.directory), str(ROWS)], stdout=log, stderr=log, env=environment
            )

    def kill(self) -> None:
        """Kill the driver, Python and JVM, as `kill -9` does."""
        for process in [*descendants(self._process.pid)]:
            os.kill(process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        return self._process.wait(DEADLINE_S)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def application(place: Place, cluster: StandaloneCluster) -> Iterator[Application]:
    running = Application(place, cluster)
    try:
        yield running
    finally:
        running.kill()


def eventually(condition: Callable[[], Any], running: Application | None = None) -> Any:
    deadline_s = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline_s, running and running.said()[-5000:]
        time.sleep(0.1)  # every look is a process of its own
    return value


def is_running(place: Place, job: object) -> Any:
    """The job's status once it runs and has completed a checkpoint in this driver, else None."""
    done = place.run("status", job, "--json")
    if done.code != 0:
        return None
    status = done.json
    return status if status["status"] == "RUNNING" and status["last_completed"] else None


def gone(place: Place, job: object) -> None:
    done = place.run("status", job)
    assert done.code == 3, done
    assert "is not running" in done.err or "none is running" in done.err


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_job_under_spark_submit_is_steered_from_outside_also_after_its_driver_was_killed(
    place: Place, standalone_cluster: StandaloneCluster
) -> None:
    storage = place.directory / "chk"

    def steer(job_id: str, attempt: int, running: Application) -> None:
        """List, status and savepoint, by name, id, storage and directory."""
        status = eventually(lambda: is_running(place, job_id), running)
        assert status["attempt"] >= attempt
        (listed,) = place.json("list")["jobs"]
        assert (listed["job_id"], listed["name"], listed["status"]) == (job_id, "clicks per user", "RUNNING")
        assert [job["job_id"] for job in place.json("list", storage)["jobs"]] == [job_id]
        for job in ("clicks per user", job_id, storage, storage / job_id, status["url"]):
            assert place.json("status", job)["url"] == status["url"], job
        text = place.run("status", job_id).out
        assert text.startswith(f"clicks per user (id {job_id}): RUNNING for ")
        saved = place.run("savepoint", storage, place.directory / "extra")
        assert saved.code == 0, saved.err
        assert Path(saved.out.strip(), "_metadata").exists()

    with application(place, standalone_cluster) as running:
        steer("first", 1, running)
        running.kill()
    gone(place, storage)
    gone(place, "clicks per user")
    assert place.entries() == []
    with application(place, standalone_cluster) as running:
        steer("first", 2, running)
        restored = place.json("checkpoints", "first")["restored"]
        assert restored["is_savepoint"] is False
        stopped = place.run("stop", "clicks per user", "--savepoint", place.directory / "last")
        assert stopped.code == 0, stopped.err
        savepoint = stopped.out.strip()
        assert Path(savepoint, "_metadata").exists()
        assert Path(savepoint).parent == place.directory / "last"
        assert running.wait() == 0
        assert "ENDED FINISHED" in running.said()
    gone(place, "clicks per user")
    made = numbering_job(
        "clicks per user",
        place.directory,
        id="second",
        rows=ROWS,
        checkpoints=lambda storage: Checkpoints(interval="1s", storage=storage, restore_from=savepoint),
    )
    assert made.job.run(ThreadCluster()) is JobStatus.FINISHED
    assert made.prove().problems == ()


# snapline run.

JOB_FILE = """
import helper
import snapline as sl

job = sl.Job(
    "clicks",
    parallelism=@PARALLELISM@,
    checkpoints=sl.Checkpoints(interval="500ms", storage=helper.place("chk")),
)
stream = job.source(sl.sources.Rate(1000, rows=@ROWS@), uid="rows")
stream.map_batches(helper.same, uid="same", schema=stream.schema).sink(sl.sinks.Files(helper.place("out")), uid="out")
"""

HELPER = """
import os

def place(name):
    return os.path.join(os.environ["PLACE"], name)

def same(batch):
    return batch
"""


def job_file(place: Place, rows: str, parallelism: int = 2) -> Path:
    file = place.directory / "program" / "clicks.py"
    file.parent.mkdir()
    file.write_text(JOB_FILE.replace("@ROWS@", rows).replace("@PARALLELISM@", str(parallelism)))
    place.environment |= {"PLACE": str(place.directory), "PYTHONPATH": ""}
    place.environment.pop("PYTHONWARNINGS")
    return file


def run(place: Place, *arguments: object) -> tuple[int, str]:
    """`snapline run` to its end: its exit code, and what it says."""
    with place.launch("run", "--conf", "spark.ui.enabled=false", *arguments) as process:
        try:
            _, err = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    return process.returncode, err


def test_a_file_that_defines_a_job_runs_on_local_spark_and_ctrl_c_suspends_it(place: Place) -> None:
    file = job_file(place, "None", parallelism=1)
    (file.parent / "helper.py").write_text(HELPER)
    for attempt in (1, 2):
        process = place.launch("run", file)
        try:
            status = eventually(lambda: is_running(place, "clicks"))
            assert status["attempt"] == attempt
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130, err
        assert ("clicks: RUNNING" if attempt == 1 else "clicks (attempt 2): RUNNING") in err
        assert "job clicks is suspended" in err
        assert place.entries() == []
    assert place.run("list").out == "No jobs are running.\n"


def test_options_of_spark_submit_lead_to_a_cluster(place: Place, standalone_cluster: StandaloneCluster) -> None:
    file = job_file(place, "1000")
    modules = place.directory / "modules"
    modules.mkdir()
    (modules / "helper.py").write_text(HELPER)
    place.environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    options = ["--master", standalone_cluster.url, "--py-files", modules / "helper.py", "--executor-memory", "600m"]
    settings = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.snapline.id=from-conf"]
    code, err = run(place, *options, *settings, "--name", "mine", file)
    assert code == 0, err[-5000:]
    assert "clicks: FINISHED after" in err
    assert (place.directory / "chk" / "from-conf").exists()


def test_a_job_that_fails_under_options(place: Place) -> None:
    file = job_file(place, "1000", parallelism=1)
    (file.parent / "helper.py").write_text(HELPER.replace("return batch", "raise KeyError('price')"))
    options = ["--master", "local[2]", "--conf", "spark.snapline.restart.strategy=none"]
    code, err = run(place, *options, file)
    assert code == 1
    assert "snapline: job 'clicks' has failed: rows/0#1: UserCodeError: map_batches 'same' raised KeyError" in err
