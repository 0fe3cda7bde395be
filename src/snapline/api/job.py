"""A job: sources, operators and sinks, and how to run them."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from snapline.api.graph_nodes import Input, Node, dead_letter_output
from snapline.api.job_handle import JobFailedError, JobHandle
from snapline.api.late_imports import spark_side
from snapline.api.live_line import show_progress, showing_progress
from snapline.api.stream import Stream
from snapline.config import Checkpoints, Execution, Path, RestartStrategy, default_restart
from snapline.contracts.dead_letters import checked_on_error
from snapline.contracts.master_hook import MasterHook
from snapline.contracts.schemas import checked_schema
from snapline.contracts.source import Source, Watermarks, checked_watermarks
from snapline.errors import ConfigurationError, RestoreError, StorageError
from snapline.operators.source_head import SourceHead
from snapline.storage.storage_factory import check_job_id, has_ended
from snapline.text import duration_text, shortened
from snapline.types import JobStatus

_log = logging.getLogger(__name__)

_MAX_NAME = 200
_MAX_SLUG = 100
_MAX_STARTS = 10_000


@runtime_checkable
class Launcher(Protocol):
    """Something that runs jobs."""

    def start_job(self, job: Job) -> JobHandle: ...


class Job:
    """A job. Nothing runs before `start` or `run`.

    `id` identifies its checkpoints and its output; a job that has finished or was cancelled never runs again under the
    same id, while one that failed goes on from its last checkpoint. By default the id is made from the name, so that a
    new driver finds the checkpoints of the old one, with a number appended once that job has finished or was cancelled;
    if checkpoints have no `storage`, every start gets a new id. `parallelism` is that of operators that set none.
    `max_parallelism` is the number of key groups, which limits the parallelism for the life of the job's state.
    `restart` is what to do after a failure; by default a job with checkpoints restarts with growing delays, and one
    without fails. `hooks` take part in every checkpoint.
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
        """The operators so far, each after its inputs."""
        return tuple(self._nodes)

    def source(
        self,
        source: Source,
        uid: str,
        *,
        parallelism: int | None = None,
        watermarks: Watermarks | None = None,
    ) -> Stream:
        """The rows of a source. `watermarks` derive event time from them; without, the stream has no event time."""
        if not isinstance(source, Source):
            raise _no_source(source)
        name = type(source).__name__
        schema = checked_schema(source.schema, f"the source {uid!r}")
        if watermarks is not None:
            checked_watermarks(watermarks, schema, f"the source {uid!r}")
        time_column = None if watermarks is None else watermarks.column
        node = Node(
            name,
            SourceHead(source, watermarks),
            uid,
            (),
            schema,
            (),
            parallelism,
            has_state=True,
            source=source,
            side_outputs=dead_letter_output(checked_on_error(source.on_error, name)),
            time_column=time_column,
        )
        return self._behind(node)

    def from_dataframe(
        self,
        dataframe: Any,
        uid: str,
        *,
        watermarks: Watermarks | None = None,
        parallelism: int | None = None,
        directory: Path | None = None,
    ) -> Stream:
        """The rows of a batch DataFrame of Spark; the job ends when all are read. Such a job runs only on Spark.

        The DataFrame is computed once, when the job starts from scratch, and written to Parquet files that the job
        reads; `start` returns after that. The files are in `directory`, which driver and executors share; by default
        beside the checkpoints, or if those have no `storage` in a temporary directory. A new driver that resumes the
        job reads the same files. They are deleted once the job has ended, unless it leaves a savepoint or checkpoints
        to resume from.
        """
        return spark_side("dataframes").from_dataframe(  # type: ignore[no-any-return]
            self, dataframe, uid, watermarks=watermarks, parallelism=parallelism, directory=directory
        )

    def id_for_start(self) -> str:
        """The id under which the job would start now.

        Without an `id` it is that of the last start that has not ended, so that the job resumes, or else a new one.
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
            "or remove what older runs left there"
        )

    def __repr__(self) -> str:
        checkpoints = self.checkpoints
        every = "" if checkpoints.interval_ms is None else f" every {duration_text(checkpoints.interval_ms)}"
        kept = "" if checkpoints.storage is None else f" in {checkpoints.storage}"
        has_checkpoints = f"checkpoints{every}{kept}" if every or kept else "no checkpoints"
        operators = f"{len(self._nodes)} operator{'' if len(self._nodes) == 1 else 's'}"
        return f"<Job {self.name!r}: {operators}, parallelism {self.parallelism}, {has_checkpoints}>"

    def start(self, where: Any, *, progress: bool = False) -> JobHandle:
        """Start the job and return at once. `where` is a SparkSession, or an object with a method `start_job`.

        `progress` shows on standard error how the job gets on until it ends: one line that changes on a terminal, a
        line every 10 s elsewhere.
        """
        handle = self._launch(where)
        show_progress(handle, wanted=progress)
        return handle

    def _launch(self, where: Any) -> JobHandle:
        """Errors that say what to do are raised without the chain of errors below them, which are logged (DEBUG)."""
        try:
            return self._start_on(where)
        except (ConfigurationError, StorageError, RestoreError) as error:
            _log.debug("job %s was not started", self.name, exc_info=error)
            raise error from None

    def _start_on(self, where: Any) -> JobHandle:
        if isinstance(where, Launcher):
            return where.start_job(self)
        if not any(kind.__module__.startswith("pyspark.") for kind in type(where).__mro__):
            raise ConfigurationError(f"a job cannot run on {where!r}; give a SparkSession")
        handle: JobHandle = spark_side("launcher").start_job(where, self)
        return handle

    def run(self, where: Any, *, progress: bool = False) -> JobStatus:
        """Run the job and wait for its end. `progress` is as in `start`.

        Ctrl-C suspends it: started again, it resumes from its last checkpoint. If checkpoints have no `storage`, and so
        are lost with this process, it is cancelled instead.
        """
        handle = self._launch(where)
        try:
            with showing_progress(handle, wanted=progress):
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
