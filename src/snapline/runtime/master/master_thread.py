"""The thread of a job master, from opening its port to releasing its last resource."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any

from snapline.errors import TransientError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.job.first_failure import Failure
from snapline.protocol.statistics.checkpoint_records import StatisticsSnapshot
from snapline.protocol.statistics.job_view import JobView
from snapline.protocol.statistics.progress import Progress, progress_of
from snapline.runtime.job_logs import JobLogger, set_log_fields
from snapline.runtime.master.control_server import ControlServer
from snapline.runtime.master.health_log import HealthLog
from snapline.runtime.master.job_history import JobHistory, end_text, keep_history
from snapline.runtime.master.job_log import EventLog, Outcome
from snapline.runtime.master.job_master import JobMaster
from snapline.runtime.master.job_storage import MasterStorage
from snapline.runtime.master.job_traces import JobTraces, trace_job
from snapline.runtime.master.master_calls import MasterCalls
from snapline.runtime.master.slot_generations import SlotGenerations
from snapline.runtime.master.slot_probe import SocketProbe
from snapline.runtime.master.slots import Slots
from snapline.runtime.scheduler.loop_scheduler import LoopScheduler
from snapline.runtime.scheduler.system_threads import wall_clock_ms
from snapline.runtime.slot.slot_provider import SlotProvider
from snapline.storage.cleaner import PARALLELISM, Cleaner
from snapline.storage.savepoint_disposal import dispose_savepoint
from snapline.types import JobStatus

CLOSE_TIMEOUT_S = 10.0
"""How long all calls under way together may take to return at the end of a job."""

_log = JobLogger(__name__)


class MasterThread:
    """Runs one master. `started` is set when slots can be ordered, `ended` when nothing of the job is left."""

    def __init__(self, spec: JobSpec, provider: SlotProvider, storage: MasterStorage) -> None:
        self.spec = spec
        self.events = EventLog()
        self.started: Future[None] = Future()
        self.ended: Future[Outcome] = Future()
        self.last_statistics = StatisticsSnapshot()
        self.url = ""
        self.master: JobMaster
        self._provider = provider
        self._storage = storage
        self._sources = {vertex.id for vertex in spec.plan.vertices if vertex.is_source}
        self._gate = threading.Lock()
        self._is_open = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._raised)
        self._context = copy_context()
        self._context.run(set_log_fields, job=spec.name, job_id=spec.job_id)
        scheduler = self._scheduler = LoopScheduler(self._loop, self._context)
        parallelism = PARALLELISM if spec.checkpoints.parallel_cleanup else 1
        self._cleaner = Cleaner(storage.archive, scheduler.executor(parallelism, "snapline-cleaner"))
        self._calls = MasterCalls.of(scheduler)
        self._generations = SlotGenerations(scheduler, spec, provider, self._provider_failed)
        self._ending: asyncio.Future[JobStatus]
        self._defect: Failure | None = None
        self._ended_ms: int | None = None
        self._history: JobHistory | None = None
        self._traces: JobTraces | None = None
        self._thread = threading.Thread(target=self._run, name=f"snapline-master-{spec.job_id[:16]}", daemon=True)

    def start(self) -> None:
        """Start the thread. Raises if the master cannot listen."""
        self._thread.start()
        try:
            self.started.result()
        except BaseException:
            # Interrupted by Ctrl-C, it runs or is about to.
            self.started.add_done_callback(self._let_go)
            self._thread.join()
            raise

    def _let_go(self, started: Future[None]) -> None:
        if started.exception() is None:
            self.post(self.master.suspend)

    def join(self) -> None:
        """Wait until the thread is gone, soon after `ended` is set."""
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def post(self, callback: Callable[..., None], *arguments: Any) -> bool:
        """Make a call on the loop soon. Returns False if the job is over and it never happens. Any thread."""
        with self._gate:
            if self._is_open:
                self._loop.call_soon_threadsafe(callback, *arguments, context=self._context)
            return self._is_open

    def progress(self) -> Progress:
        """How far the job has come. On the loop, or once the job has ended."""
        master = self.master
        statistics = master.statistics if self._is_open else self.last_statistics
        cause = "" if master.failure.failure is None else master.failure.failure.cause
        metrics = master.monitor.metrics.values()
        return progress_of(master.status, master.attempt, cause, metrics, self._sources, statistics)

    def view(self) -> JobView:
        """Everything outsiders see of the job. On the loop, or once the job has ended."""
        if not hasattr(self, "master"):
            raise TransientError(f"job {self.spec.name!r} is starting; ask again in a moment")
        master = self.master
        return master.monitor.view(master.status, master.attempt, master.repeats, self._ended_ms, self.url)

    def dispose(self, path: str) -> None:
        """Delete a savepoint in one of the job's directories. Blocks."""
        dispose_savepoint(self._storage.objects, path, self._storage.archive.covers)

    # On the thread.

    def _run(self) -> None:
        set_log_fields(job=self.spec.name, job_id=self.spec.job_id)
        outcome: Outcome | None = None
        try:
            outcome = self._loop.run_until_complete(self._main())
        except BaseException as error:
            if not self.started.done():
                self.started.set_exception(error)
            else:
                self._note_defect(error)
        try:
            self._shut_down()
        except Exception as error:
            self._note_defect(error)
        if self.started.exception() is None:
            self._report(outcome or Outcome(JobStatus.FAILED, self._defect))

    def _provider_failed(self, generation: int, error: str, is_fatal: bool) -> None:
        self._slots.provider_failed(generation, error, is_fatal)

    def _next_attempt(self) -> int:
        """The attempt for which slots are ordered: the next one is not claimed yet while the job restarts."""
        return self.master.attempt + (self.master.status is JobStatus.RESTARTING)

    async def _main(self) -> Outcome:
        spec, scheduler = self.spec, self._scheduler
        self._ending = self._loop.create_future()
        self.master = master = JobMaster(
            spec, self._storage, self._cleaner, scheduler, self._calls, self._generations, self.events, self._end
        )
        self._history = keep_history(spec, self._storage, scheduler, master.monitor, self.view)
        self._traces = trace_job(spec, scheduler, master.monitor)
        probe = SocketProbe(self._loop)
        self._slots = slots = Slots(
            spec.plan.slots, spec.execution, scheduler, self._generations, probe, master, master.effects, self.events
        )
        server = ControlServer(slots, spec.plan.slots, self._note_defect)
        await server.start(self._provider.bind_host, spec.execution.driver_ports)
        health = HealthLog(scheduler, spec.name, spec.execution.health_interval_ms, self.progress)
        self._generations.port = server.port
        self._generations.page_url = self.url
        self._generations.next_attempt = self._next_attempt
        self._is_open = True
        has_ended = False
        try:
            self.started.set_result(None)
            master.start(slots)
            health.start()
            status = await self._ending
            has_ended = status is not JobStatus.SUSPENDED
            health.close()
            master.close()
            closing = master.coordinators_closed
            if self._history is not None:
                closing = [*closing, self._history.close(status)]
            if self._traces is not None:
                closing = [*closing, self._traces.close()]
            if closing:
                await asyncio.wait([asyncio.wrap_future(closed) for closed in closing], timeout=CLOSE_TIMEOUT_S)
        finally:
            closed = asyncio.Event()
            slots.close(closed.set, has_ended=has_ended)
            await closed.wait()
            await probe.close()
            await server.close()
        return Outcome(status, self._defect or master.failure.failure)

    def _end(self, status: JobStatus) -> None:
        if not self._ending.done():
            self._ending.set_result(status)

    # Defects.

    def _raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, OSError):
            loop.default_exception_handler(context)
        else:
            self._note_defect(error)

    def _note_defect(self, error: BaseException) -> None:
        """The master itself failed: the job ends and its checkpoints stay for another driver."""
        _log.error("job %s: the job master has failed; this is a defect", self.spec.name, exc_info=error)
        if self._defect is None:
            self._defect = Failure(f"the job master has failed, which is a defect: {type(error).__name__}: {error}")
        self._end(JobStatus.FAILED)

    # The end.

    def _shut_down(self) -> None:
        with self._gate:
            self._is_open = False
        if hasattr(self, "master"):
            self.last_statistics = self.master.statistics
            self.master.monitor.watchers.clear()
        # Runs everything posted before; nothing can follow.
        self._loop.run_until_complete(asyncio.sleep(0))
        self._generations.close_threads()
        calls, deadline_s = self._calls, time.monotonic() + CLOSE_TIMEOUT_S
        for close, what in (
            (self._cleaner.abandon, "a deletion"),
            (calls.hooks.close, "a master hook"),
            (calls.coordinators.close, "an operator coordinator"),
            (calls.background.close, "a source's discovery, or a background call of an operator coordinator"),
            *([] if self._history is None else [(self._history.calls.close, "the history of the job")]),
            *([] if self._traces is None else [(self._traces.calls.close, "the exporter of traces")]),
            (calls.storage.close, "storage"),
            (calls.journal.close, "the journal"),
        ):
            if not close(max(deadline_s - time.monotonic(), 0.0)):
                _log.warning("job %s: %s does not return; its thread is left behind", self.spec.name, what)
        self._storage.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _report(self, outcome: Outcome) -> None:
        self._ended_ms = wall_clock_ms()
        self.master.status = outcome.status
        self.master.monitor.status_changed(outcome.status)
        self.master.failure.failure = outcome.failure
        self.events.add(end_text(outcome.status))
        if outcome.status is JobStatus.FAILED:
            cause = "" if outcome.failure is None else f": {outcome.failure.cause}"
            _log.error("job %s has failed%s", self.spec.name, cause, attempt=self.master.attempt)
        else:
            status, attempt = outcome.status.value, self.master.attempt
            _log.info("job %s has ended: %s", self.spec.name, status, attempt=attempt)
        self.master.requests.ended(outcome.status)
        self.ended.set_result(outcome)
