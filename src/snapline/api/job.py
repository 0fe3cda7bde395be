"""A job: sources, operators and sinks, and how to run them."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable
from html import escape
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from snapline.api.graph_nodes import Input, Node, dead_letter_output
from snapline.api.job_handle import JobFailedError, JobHandle
from snapline.api.job_plan import JobPlan
from snapline.api.late_imports import planner_side, spark_side, sql_side
from snapline.api.live_line import show_progress, showing_progress
from snapline.api.stream import Stream
from snapline.config import Checkpoints, Execution, Monitoring, Path, RestartStrategy, default_restart
from snapline.contracts.dead_letters import checked_on_error
from snapline.contracts.master_hook import MasterHook
from snapline.contracts.schemas import checked_schema
from snapline.contracts.source import Source, Watermarks, checked_watermarks
from snapline.errors import ConfigurationError, RestoreError, SnaplineError, StorageError
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
    without fails. `hooks` take part in every checkpoint. `monitoring` says where the job's page and REST interface are;
    by default on the loopback address of the driver if it runs on Spark, and nowhere in tests without.
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
        monitoring: Monitoring | None = None,
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
        self.monitoring = monitoring
        self.asks_for_checkpoints = False
        """Whether something else than a clock takes its checkpoints."""
        self._nodes: list[Node] = []
        self._views: dict[str, Stream] = {}

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
        """The rows of a DataFrame of Spark. Such a job runs only on Spark.

        A streaming DataFrame becomes part of the job as `sql` does it; it has its own watermarks, and the other
        arguments are left out. The job ends when all rows of a batch DataFrame are read.

        The DataFrame is computed once, when the job starts from scratch, and written to Parquet files that the job
        reads; `start` returns after that. The files are in `directory`, which driver and executors share; by default
        beside the checkpoints, or if those have no `storage` in a temporary directory. A new driver that resumes the
        job reads the same files. They are deleted once the job has ended, unless it leaves a savepoint or checkpoints
        to resume from.
        """
        if getattr(dataframe, "isStreaming", False) is True:
            return sql_side("job_queries").dataframe_stream(self, dataframe, uid)  # type: ignore[no-any-return]
        return spark_side("dataframes").from_dataframe(  # type: ignore[no-any-return]
            self, dataframe, uid, watermarks=watermarks, parallelism=parallelism, directory=directory
        )

    def view(self, name: str, stream: Stream) -> None:
        """Give a stream of this job a name for `sql`."""
        if not isinstance(stream, Stream) or stream._job is not self:
            raise ConfigurationError(f"view({name!r}, {shortened(stream)}): give a stream of this job")
        self._views[name] = stream

    def sql(self, query: str, *, uid: str = "sql", spark: Any = None) -> Stream:
        """The result of a query of Spark SQL over views of this job, and tables and views of Spark, as a stream.

        Spark parses and checks the query, this job runs it. Results of groups that event time ends are emitted once;
        where results change later, the stream has the column `__change` with the kind of each row: 0 insert, 1 update
        before, 2 update after, 3 delete. `uid` starts the uids of the query's operators. `spark` is the session, by
        default the active one. Raises `ConfigurationError` for what does not run, with what to write instead.
        """
        return sql_side("job_queries").sql_stream(self, query, uid, spark)  # type: ignore[no-any-return]

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

    def _repr_html_(self) -> str:
        try:
            return self.explain()._repr_html_()
        except SnaplineError as error:
            return f"<pre>{escape(repr(self))}\n{escape(str(error))}</pre>"

    def explain(self, where: Any = None) -> JobPlan:
        """How the job would run, before anything runs: `print(job.explain())`; a notebook shows it as a picture.

        Reads the storage of checkpoints to say what the job would start from, and changes nothing. `where` may be the
        SparkSession to start on: then its `spark.snapline.*` settings count. Raises `ConfigurationError` as `start`
        does if something is wrong with the job; whether Spark, sources and sinks can be reached is not checked.
        """
        job = self
        if where is not None and _is_spark(where):
            job = spark_side("launcher").with_settings(where, self)
        made: JobPlan = planner_side("job_explanation").explain(job)
        return made

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
        if not _is_spark(where):
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
                _log.warning("job %s is suspended; started again, it goes on from its last checkpoint", self.name)
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


def _is_spark(where: Any) -> bool:
    return any(kind.__module__.startswith("pyspark.") for kind in type(where).__mro__)


def _no_source(given: Any) -> ConfigurationError:
    advice = "a Source, for example snapline.sources.Rate(rows=1000)"
    if isinstance(given, pa.Table | pa.RecordBatch):
        advice = "snapline.sources.Iterator([batch]) of its batches"
    elif isinstance(given, list | tuple) or callable(given):
        advice = f"snapline.sources.Iterator({'list' if isinstance(given, list | tuple) else 'function'})"
    return ConfigurationError(f"source({shortened(given)}): give {advice}")
