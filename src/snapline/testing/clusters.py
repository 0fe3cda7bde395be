"""Clusters without Spark, for tests: the driver and the slots are threads of this process.

A `ProcessCluster` starts real operator processes, which a test may kill; a `ThreadCluster` runs them as threads too,
which is faster and can be debugged.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from snapline.api.job import Job
from snapline.api.job_handle import JobHandle
from snapline.errors import ConfigurationError, EngineError, SnaplineError
from snapline.graph.planner import make_spec
from snapline.runtime.master.start_master import start_master
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.operator_process import OperatorProcess
from snapline.runtime.slot.process_launcher import KILL_TIMEOUT_S, Child, Ended, LaunchedProcess, StartChild
from snapline.runtime.slot.slot_provider import SilentSlots, SlotOrder, no_slots
from snapline.runtime.slot.supervisor import Supervisor

LOOPBACK = "127.0.0.1"
FORCE_TIMEOUT_S = 15.0

_log = logging.getLogger(__name__)
_task_attempts = itertools.count()


class _Cluster(ABC):
    """Runs any number of jobs, which share `slots`. None means no limit."""

    def __init__(self, slots: int | None = None) -> None:
        self.slots = slots
        self._guard = threading.Lock()
        self._providers: list[ClusterSlots] = []

    def start_job(self, job: Job) -> JobHandle:
        """Start a job and return its handle at once. `Job.run`, `Job.start` and `Stream.collect` call this."""
        return start_master(make_spec(job), self.provider())

    def provider(self) -> ClusterSlots:
        """Make the `SlotProvider` of another job."""
        provider = ClusterSlots(self, self._start_child)
        with self._guard:
            self._providers.append(provider)
        return provider

    def lose_slot(self, slot: int, provider: int = 0) -> None:
        """End a slot as if its Spark task had died, with everything in it.

        `provider` selects the job: 0 is the first one started on this cluster, -1 the last.
        """
        self._providers[provider].lose_slot(slot)

    @abstractmethod
    def _start_child(self, bootstrap: Bootstrap, ended: Ended) -> Child: ...

    def _reserve(self, provider: ClusterSlots, slots: int) -> None:
        with self._guard:
            held = sum(other.reserved for other in self._providers if other is not provider)
            if self.slots is not None and slots > self.slots - held:
                others = f", of which other jobs hold {held}" if held else ""
                raise ConfigurationError(
                    f"the job needs {slots} slots at the same time and the cluster has {self.slots}{others}; lower the "
                    "parallelism"
                )
            provider.reserved = slots


class ProcessCluster(_Cluster):
    """A cluster whose slots have real operator processes, over loopback. Give it to `Job.run` or `Job.start`.

        cluster = ProcessCluster(slots=4)
        handle = job.start(cluster)
        os.kill(cluster.worker_pids()[0], signal.SIGKILL)
        assert handle.wait("60s") is sl.JobStatus.FINISHED

    `ConfigurationError` from `Job.start` if the job needs more slots than are free.
    """

    def __init__(self, slots: int | None = None) -> None:
        super().__init__(slots)
        self._processes: dict[int, LaunchedProcess] = {}

    def worker_pids(self) -> list[int]:
        """The process ids of all running operator processes, in ascending order."""
        with self._guard:
            return sorted(pid for pid, process in self._processes.items() if process.is_running)

    def _start_child(self, bootstrap: Bootstrap, ended: Ended) -> Child:
        process = LaunchedProcess(bootstrap, ended)
        with self._guard:
            self._processes = {pid: other for pid, other in self._processes.items() if other.is_running}
            self._processes[process.pid] = process
        return process


class ThreadCluster(_Cluster):
    """A cluster whose operator processes are threads of this process. Give it to `Job.run`, `start` or `collect`.

        assert job.run(ThreadCluster(slots=2)) is sl.JobStatus.FINISHED

    `ConfigurationError` from `Job.start` if the job needs more slots than are free.
    """

    def _start_child(self, bootstrap: Bootstrap, ended: Ended) -> Child:
        return _OperatorThread(bootstrap, ended)


class ClusterSlots:
    """A `SlotProvider` whose supervisors are threads."""

    def __init__(self, cluster: _Cluster, start_child: StartChild) -> None:
        self.reserved = 0
        self._cluster = cluster
        self._start_child = start_child
        self._guard = threading.Lock()
        self._order: _Order | None = None
        self._is_closed = False

    @property
    def driver_host(self) -> str:
        return LOOPBACK

    @property
    def bind_host(self) -> str:
        return LOOPBACK

    def check(self, slots: int) -> None:
        self._cluster._reserve(self, slots)

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        started = _Order(order, failed, self._start_child)
        with self._guard:
            if self._is_closed:
                return
            before, self._order = self._order, started
            started.start()
        if before is not None:  # it was released while it was being started
            before.release(0)

    def release(self, timeout_s: float, silent: SilentSlots = no_slots) -> None:
        del silent  # a process here can always be killed
        with self._guard:
            order, self._order = self._order, None
        if order is not None:
            order.release(timeout_s)

    def why_gone(self) -> str | None:
        return None

    def close(self) -> None:
        with self._guard:
            self._is_closed = True
        self.release(0)
        self.reserved = 0

    def lose_slot(self, slot: int) -> None:
        with self._guard:
            assert self._order is not None, "no slots have been ordered"
            self._order.supervisors[slot].give_up(f"slot {slot} was lost")


class _Order:
    """The supervisors of one order. The first failure is reported; the others run until they are released."""

    def __init__(self, order: SlotOrder, failed: Callable[[str, bool], None], start_child: StartChild) -> None:
        self.supervisors = [
            Supervisor(order, slot, order.slot_host or LOOPBACK, next(_task_attempts), start_child=start_child)
            for slot in range(order.slots)
        ]
        self._failed = failed
        self._guard = threading.Lock()
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._run, args=(supervisor,), name=f"slot-{slot}", daemon=True)
            for slot, supervisor in enumerate(self.supervisors)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def release(self, timeout_s: float) -> None:
        with self._guard:
            self._is_over = True
        if self._join(timeout_s):
            return
        for supervisor in self.supervisors:
            supervisor.give_up("released by force")
        if not self._join(FORCE_TIMEOUT_S):
            raise EngineError(f"a supervisor has not ended within {FORCE_TIMEOUT_S:g} s of being told to give up")

    def _join(self, timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, supervisor: Supervisor) -> None:
        try:
            supervisor.run()
        except SnaplineError as error:
            self._report(str(error))
        except Exception as error:
            _log.exception("a supervisor failed unexpectedly")
            self._report(f"{type(error).__name__}: {error}")
        else:
            self._report("a slot has ended before its release")

    def _report(self, message: str) -> None:
        with self._guard:
            is_first, self._is_over = not self._is_over, True
        if is_first:
            self._failed(message, False)


class _OperatorThread:
    """A thread in place of an operator process."""

    def __init__(self, bootstrap: Bootstrap, ended: Ended) -> None:
        self._bootstrap = bootstrap
        self._ended = ended
        self._process = OperatorProcess(bootstrap)
        self._is_killed = False
        self._thread = threading.Thread(target=self._run, name=f"operators-{bootstrap.slot}", daemon=True)
        self._thread.start()

    @property
    def incarnation(self) -> int:
        return self._bootstrap.incarnation

    def kill(self) -> None:
        self._is_killed = True
        self._process.stop()
        self._thread.join(KILL_TIMEOUT_S)
        if self._thread.is_alive():
            raise EngineError(
                f"the operator thread of slot {self._bootstrap.slot} has not ended within {KILL_TIMEOUT_S:g} s"
            )

    def _run(self) -> None:
        how = "exited"
        try:
            self._process.run()
        except SnaplineError as error:
            how = f"exited: {error}"
        except Exception as error:
            _log.exception("the operator thread of slot %d failed unexpectedly", self._bootstrap.slot)
            how = f"exited: {type(error).__name__}: {error}"
        if not self._is_killed:
            self._ended(self.incarnation, how, "")
