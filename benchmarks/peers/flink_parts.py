"""Shared by the scripts for Flink, which run in an interpreter with apache-flink; it need not have Snapline."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

POLL_S = 0.05
START_TIMEOUT_S = 120.0


class Cluster:
    """Returns a configuration for a mini cluster in this process, with a checkpoint directory and a REST port."""

    def __init__(self, parallelism: int, **settings: str) -> None:
        from pyflink.common import Configuration

        self.directory = tempfile.mkdtemp(prefix="flink-benchmark-")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.settings = {
            "rest.port": str(self.port),
            "rest.bind-port": str(self.port),
            "parallelism.default": str(parallelism),
            "taskmanager.numberOfTaskSlots": str(parallelism),
            "pipeline.object-reuse": "true",
            "state.backend.type": "hashmap",
            "execution.checkpointing.interval": "1s",
            "execution.checkpointing.dir": f"file://{self.directory}",
            "restart-strategy.type": "none",
            "python.executable": sys.executable,
            **settings,
        }
        # Python inside the JVM does not know the virtual environment of this interpreter.
        packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), os.getcwd()]
        os.environ["PYTHONPATH"] = os.pathsep.join([*dict.fromkeys(packages), os.environ.get("PYTHONPATH", "")])
        os.environ.setdefault("FLINK_LOG_DIR", self.directory)
        self.configuration = Configuration()
        for name, value in self.settings.items():
            self.configuration.set_string(name, value)

    def time(self, client: Any) -> dict[str, Any]:
        """Waits for a job's end; returns the seconds from when its last task ran to its end, and its checkpoints."""
        job = str(client.get_job_id())
        result = client.get_job_execution_result()
        deadline_s = time.monotonic() + START_TIMEOUT_S
        started_ms: int | None = None
        checkpoints = 0
        while not result.done():
            if started_ms is None:
                started_ms = self._all_running_ms(job)
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"the tasks of job {job} do not run after {START_TIMEOUT_S} s")
            else:
                checkpoints = self._checkpoints(job, checkpoints)
            time.sleep(POLL_S)
        ended_s = time.time()
        net_s = result.result().get_net_runtime() / 1000
        if started_ms is None:
            raise RuntimeError(f"job {job} ended within {net_s} s, before its tasks were seen; give it more events")
        return {
            "seconds": ended_s - started_ms / 1000,
            "ended_s": ended_s,
            "net_seconds": net_s,
            "checkpoints": checkpoints,
        }

    def conditions(self) -> dict[str, Any]:
        """The settings that differ from Flink's defaults."""
        hidden = {"rest.port", "rest.bind-port", "python.executable", "execution.checkpointing.dir"}
        return {name: value for name, value in self.settings.items() if name not in hidden}

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _all_running_ms(self, job: str) -> int | None:
        """Returns when the last task started, by this process's clock, or None if not all have."""
        try:
            vertices = [vertex["id"] for vertex in self._get(f"/jobs/{job}")["vertices"]]
            answers = [self._get(f"/jobs/{job}/vertices/{vertex}/subtasktimes") for vertex in vertices]
        except OSError:  # not known yet, or already ended
            return None
        times = [int(subtask["timestamps"]["RUNNING"]) for answer in answers for subtask in answer["subtasks"]]
        return max(times) if times and min(times) > 0 else None

    def _checkpoints(self, job: str, before: int) -> int:
        try:
            return int(self._get(f"/jobs/{job}/checkpoints")["counts"]["completed"])
        except OSError:  # the cluster ends with its job
            return before

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)


def environments(cluster: Cluster) -> tuple[Any, Any]:
    """Returns the environments for streams, and for tables made of them."""
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import StreamTableEnvironment

    environment = StreamExecutionEnvironment.get_execution_environment(cluster.configuration)
    return environment, StreamTableEnvironment.create(environment)


def number_view(environments: tuple[Any, Any], name: str, rows: int, columns: Mapping[str, str] | None = None) -> None:
    """Creates a view of the numbers n from 0, with more columns by expressions over n.

    If one of them is `time_ms`, the view has the time attribute `dateTime`, and no row is ever late. Others whose names
    end with `_ms` become timestamps.

    The source is Flink's own number sequence. With a sequence of the connector `datagen`, hardly any checkpoint
    completes within ten seconds.
    """
    from pyflink.common import Types, WatermarkStrategy
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource
    from pyflink.table import Schema

    environment, tables = environments
    source = NumberSequenceSource(0, rows - 1)
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), name, Types.LONG())
    schema = Schema.new_builder().column("f0", "BIGINT NOT NULL").column_by_expression("n", "f0")
    for column, expression in (columns or {}).items():
        if column == "time_ms":
            schema = schema.column_by_expression("dateTime", f"TO_TIMESTAMP_LTZ({expression}, 3)")
            schema = schema.watermark("dateTime", "`dateTime` - INTERVAL '0.001' SECOND")
        elif column.endswith("_ms"):
            schema = schema.column_by_expression(column.removesuffix("_ms"), f"TO_TIMESTAMP_LTZ({expression}, 3)")
        else:
            schema = schema.column_by_expression(column, expression)
    tables.create_temporary_view(name, tables.from_data_stream(stream, schema.build()))


def version() -> str:
    from importlib.metadata import version as installed

    return f"apache-flink {installed('apache-flink')}"
