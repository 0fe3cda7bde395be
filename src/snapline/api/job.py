"""A job: sources, operators and sinks put together, and how to run them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from snapline.api.graph_nodes import Input, Node
from snapline.api.job_handle import JobFailedError, JobHandle
from snapline.api.late_imports import spark_side
from snapline.api.stream import Stream
from snapline.config import Checkpoints, Execution, Path, RestartStrategy, default_restart
from snapline.contracts.master_hook import MasterHook
from snapline.contracts.schemas import checked_schema
from snapline.contracts.source import Source, Watermarks, checked_watermarks
from snapline.errors import ConfigurationError
from snapline.operators.source_head import SourceOperator
from snapline.storage.storage_factory import check_job_id, has_ended
from snapline.text import shortened
from snapline.types import JobStatus

_MAX_NAME = 200
_MAX_SLUG = 100
_MAX_STARTS = 10_000


@runtime_checkable
class Launcher(Protocol):
    """Something that runs jobs."""

    def start_job(self, job: Job) -> JobHandle: ...


class Job:
    """A job. Nothing of it runs before `start` or `run`.

    `id` is what its checkpoints and its output are filed under: a job that has ended is never run again under the same
    one. Without one it is made of the name, so that a new driver finds the checkpoints of the old one, with a number
    behind it once that has ended; if checkpoints have no `storage`, every start has an id of its own.
    `parallelism` is that of all operators that set none. `max_parallelism` is the number of key groups: it bounds the
    parallelism for the life of the job's state. `restart` says what happens after a failure; without it the job is
    restarted with growing pauses if it has checkpoints, and fails if not. `hooks` take part in every checkpoint.
    """

    def __init__(
        self,
        name: str,
        *,
        id: str | None = None,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        checkpoints: Checkpoints | None = None,
        execution: Execution | None = None,
        restart: RestartStrategy | None = None,
        hooks: Iterable[MasterHook] = (),
    ) -> None:
        if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
            raise ConfigurationError(f"{name!r} cannot be the name of a job; use 1 to {_MAX_NAME} printable characters")
        self.name = name
        self.id = None if id is None else check_job_id(id)
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.checkpoints = Checkpoints() if checkpoints is None else checkpoints
        self.execution = Execution() if execution is None else execution
        is_checkpointed = self.checkpoints.is_periodic or self.checkpoints.storage is not None
        self.has_default_restart = restart is None
        self.restart = default_restart(is_checkpointed) if restart is None else restart
        self.hooks = tuple(hooks)
        self._nodes: list[Node] = []

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The operators so far, each behind those its rows come from."""
        return tuple(self._nodes)

    def source(
        self,
        source: Source,
        uid: str,
        *,
        parallelism: int | None = None,
        watermarks: Watermarks | None = None,
    ) -> Stream:
        """The rows of a source. `watermarks` says how event time is told from them; without it there is none."""
        if not isinstance(source, Source):
            raise _no_source(source)
        name = type(source).__name__
        schema = checked_schema(source.schema, f"the source {uid!r}")
        if watermarks is not None:
            checked_watermarks(watermarks, schema, f"the source {uid!r}")
        time_column = None if watermarks is None else watermarks.column
        operator = SourceOperator(source, watermarks)
        return self._behind(
            Node(
                name,
                operator,
                uid,
                (),
                schema,
                parallelism=parallelism,
                has_state=True,
                source=source,
                time_column=time_column,
            )
        )

    def from_dataframe(
        self,
        dataframe: Any,
        uid: str,
        *,
        watermarks: Watermarks | None = None,
        parallelism: int | None = None,
        directory: Path | None = None,
    ) -> Stream:
        """The rows of a Spark DataFrame that is no stream; the job ends when all are read. It runs on Spark only.

        The DataFrame is computed once, when the job starts from its beginning, and written to Parquet files that the
        job then reads; `start` returns after that. The files are in `directory`, which driver and executors share,
        without one beside the checkpoints, and without `storage` for those among temporary files. A new driver that
        goes on with the job reads the same files. They are deleted once the job has ended, unless it leaves a savepoint
        or checkpoints to go on from.
        """
        return spark_side("dataframes").from_dataframe(  # type: ignore[no-any-return]
            self, dataframe, uid, watermarks=watermarks, parallelism=parallelism, directory=directory
        )

    def id_for_start(self) -> str:
        """The id that a start of the job has now.

        Without an `id` it is that of the last start which has not ended, so that the job goes on; else a new one.
        """
        if self.id is not None:
            return self.id
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:_MAX_SLUG].strip("-") or "job"
        if self.checkpoints.storage is None:
            return f"{slug}-{secrets.token_hex(4)}"
        for number in range(1, _MAX_STARTS):
            job_id = slug if number == 1 else f"{slug}-{number}"
            if not has_ended(self.checkpoints, job_id):
                return job_id
        raise ConfigurationError(
            f"job {self.name!r} has ended {_MAX_STARTS} times in {self.checkpoints.storage}; give it an id of its own, "
            "or remove what is there of older runs"
        )

    def start(self, where: Any) -> JobHandle:
        """Run the job and return while it runs. `where` is a SparkSession, or anything with a method `start_job`."""
        if isinstance(where, Launcher):
            return where.start_job(self)
        if not any(kind.__module__.startswith("pyspark.") for kind in type(where).__mro__):
            raise ConfigurationError(f"a job cannot run on {where!r}; give a SparkSession")
        handle: JobHandle = spark_side("launcher").start_job(where, self)
        return handle

    def run(self, where: Any) -> JobStatus:
        """Run the job and wait for its end.

        An interrupt from the keyboard suspends it: started again, it goes on from its last checkpoint. Where that would
        be lost with this process, since checkpoints have no `storage`, it is cancelled.
        """
        handle = self.start(where)
        try:
            return handle.wait()
        except KeyboardInterrupt:
            if self.checkpoints.storage is None:
                handle.cancel()
            else:
                handle.suspend()
            raise

    def _run_with(self, extend: Callable[[], None], where: Any, call: str) -> None:
        """Run the job to its end with the operators that `extend` adds, and remove those afterwards.

        `ConfigurationError` if a source never ends, `JobFailedError` if the job ends early; `call` is named in both.
        """
        for node in self._nodes:
            if node.source is not None and not node.source.is_bounded:
                raise ConfigurationError(
                    f"{call}: the source {node.uid!r} never ends, so neither does the job; write its rows with "
                    "sink(...), or give it a source that ends"
                )
        before = list(self._nodes)
        try:
            extend()
            status = self.run(where)
        finally:
            self._nodes[:] = before
        if status is not JobStatus.FINISHED:
            raise JobFailedError(f"{call}: the job has not run to its end, it is {status.value}")

    def _behind(self, node: Node) -> Stream:
        self._add(node)
        return Stream(self, (Input(node),), node.schema)

    def _add(self, node: Node) -> None:
        self._nodes.append(node)


def _no_source(given: Any) -> ConfigurationError:
    advice = "a Source, for example snapline.sources.Rate(rows=1000)"
    if isinstance(given, pa.Table | pa.RecordBatch):
        advice = "snapline.sources.Iterator([batch]) of its batches"
    elif isinstance(given, list | tuple) or callable(given):
        advice = f"snapline.sources.Iterator({'list' if isinstance(given, list | tuple) else 'function'})"
    return ConfigurationError(f"source({shortened(given)}): give {advice}")
