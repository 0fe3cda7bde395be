"""The thread a job master lives in: from the port it opens to the last thing it lets go of."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from snapline.errors import FencedError, StorageError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.statistics.checkpoint_statistics import StatisticsSnapshot
from snapline.runtime.master.background_calls import Background
from snapline.runtime.master.control_server import ControlServer
from snapline.runtime.master.job_log import Ending, EventLog, Failure, Outcome
from snapline.runtime.master.job_master import JobMaster
from snapline.runtime.master.job_storage import MasterStorage
from snapline.runtime.master.slot_generations import SlotGenerations
from snapline.runtime.master.slots import Slots
from snapline.runtime.slot.slot_provider import SlotProvider
from snapline.storage.cleaner import PARALLELISM, Cleaner
from snapline.types import JobStatus

STORAGE_THREADS = 4
CLOSE_TIMEOUT_S = 30.0
RECORD_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)
"""Pauses between tries to record the end of a job, on top of the retries of the storage itself."""

_log = logging.getLogger(__name__)


class MasterThread:
    """Runs one master. `started` is told when slots can be ordered, `ended` when nothing of the job is left."""

    def __init__(self, spec: JobSpec, provider: SlotProvider, storage: MasterStorage) -> None:
        self.spec = spec
        self.events = EventLog()
        self.started: Future[None] = Future()
        self.ended: Future[Outcome] = Future()
        self.last_statistics = StatisticsSnapshot()
        self.master: JobMaster
        self._host = provider.driver_host
        self._provider = provider
        self._storage = storage
        self._gate = threading.Lock()
        self._is_open = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._raised)
        self._cleaner = Cleaner(storage.archive, PARALLELISM if spec.checkpoints.parallel_cleanup else 1)
        self._on_storage = Background(self._loop, STORAGE_THREADS, "snapline-storage")
        self._on_hooks = Background(self._loop, 1, "snapline-hooks")
        self._orders = SlotGenerations(self._loop, spec, provider, self._host, self._provider_failed)
        self._ending: asyncio.Future[Ending]
        self._defect: Failure | None = None
        self._thread = threading.Thread(target=self._run, name=f"snapline-master-{spec.job_id[:16]}", daemon=True)

    def start(self) -> None:
        """Start the thread; raises if the master cannot listen."""
        self._thread.start()
        try:
            self.started.result()
        except BaseException:
            self._thread.join()
            raise

    def join(self) -> None:
        """Wait until the thread is gone; it is about to be once `ended` is told."""
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def post(self, callback: Callable[..., None], *arguments: Any) -> bool:
        """Call something on the loop soon; false if the job is over, and it never will be. Any thread."""
        with self._gate:
            if self._is_open:
                self._loop.call_soon_threadsafe(callback, *arguments)
            return self._is_open

    # In the thread.

    def _run(self) -> None:
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
            self._tell(outcome or Outcome(JobStatus.FAILED, self._defect))

    def _provider_failed(self, generation: int, error: str, is_fatal: bool) -> None:
        self._slots.provider_failed(generation, error, is_fatal)

    async def _main(self) -> Outcome:
        self._ending = self._loop.create_future()
        self.master = master = JobMaster(
            self.spec, self._storage, self._cleaner, self._on_storage, self._on_hooks, self.events, self._end
        )
        self._slots = slots = Slots(self.spec.plan.slots, self.spec.execution, self._orders, master, self.events)
        server = ControlServer(slots, self.spec.plan.slots, self._note_defect)
        await server.start(self._provider.bind_host)
        self._orders.port = server.port
        self._is_open = True
        try:
            self.started.set_result(None)
            master.start(slots)
            ending = await self._ending
            status = await self._record(ending)
            master.close()
        finally:
            await slots.close()
            await server.close()
        return Outcome(status, self._defect or master.failure)

    def _end(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    async def _record(self, ending: Ending) -> JobStatus:
        """Record the end, so that it may be told; what it is to be called if that is not possible."""
        if not ending.must_record or not ending.status.is_globally_terminal:
            return ending.status
        if ending.status is JobStatus.FAILED and (gone := await self._orders.why_gone()) is not None:
            # Its slots went with the application, which no restart could mend: it is left for another driver.
            self.master.failure = Failure(gone)
            return ending.status
        for pause_s in (*RECORD_PAUSES_S, None):
            try:
                await self._on_storage.call(lambda: self._cleaner.close(wait=True))
                await self._on_storage.call(lambda: self.master.record_end(ending.status))
                return ending.status
            except FencedError as error:
                self.master.failure = Failure(f"the job did not end as {ending.status.value}: {error}")
                _log.warning("job %s: %s", self.spec.name, self.master.failure.cause)
                break
            except StorageError as error:
                self.master.failure = Failure(
                    f"that the job has ended ({ending.status.value}) could not be recorded: {error}; a driver that is "
                    "started with this job goes on with it"
                )
                _log.warning("job %s: %s", self.spec.name, self.master.failure.cause)
                if pause_s is not None:
                    await asyncio.sleep(pause_s)
        return JobStatus.SUSPENDED

    # When something goes wrong that must not.

    def _raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, OSError):
            loop.default_exception_handler(context)
        else:
            self._note_defect(error)

    def _note_defect(self, error: BaseException) -> None:
        """The master itself has failed: the job ends, and its checkpoints stay for another driver."""
        _log.error("job %s: the job master has failed; this is a defect", self.spec.name, exc_info=error)
        if self._defect is None:
            self._defect = Failure(f"the job master has failed, which is a defect: {type(error).__name__}: {error}")
        self._end(Ending(JobStatus.FAILED, must_record=False))

    # The end.

    def _shut_down(self) -> None:
        with self._gate:
            self._is_open = False
        if hasattr(self, "master"):
            self.last_statistics = self.master.statistics
        # Whatever was posted before is carried out; nothing can come after it.
        self._loop.run_until_complete(asyncio.sleep(0))
        self._cleaner.close(wait=False)
        self._orders.close_threads()
        for background, what in ((self._on_hooks, "a master hook"), (self._on_storage, "storage")):
            if not background.close(CLOSE_TIMEOUT_S):
                _log.warning("job %s: %s does not come back; its thread is left behind", self.spec.name, what)
        self._storage.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _tell(self, outcome: Outcome) -> None:
        self.master.status = outcome.status
        self.master.failure = outcome.failure
        self.events.add(f"the job has ended: {outcome.status.value}")
        _log.info("job %s has ended: %s", self.spec.name, outcome.status.value)
        self.master.requests.ended(outcome.status)
        self.ended.set_result(outcome)
