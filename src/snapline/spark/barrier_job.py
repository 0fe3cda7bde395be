"""The Spark job that holds a job's slots: a single barrier stage with one task per slot."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from py4j.protocol import Py4JError

from snapline.runtime.slot.slot_provider import SilentSlots, SlotOrder, no_slots
from snapline.spark.capacity import ExecutorWait, is_local, task_slots
from snapline.spark.own_interpreter import own_python
from snapline.spark.slot_task import make_slot_main
from snapline.spark.spark_failures import describe
from snapline.spark.ui_link import describe_job

CANCEL_TIMEOUT_S = 5.0
"""Spark kills the tasks of a cancelled job after about 3 s; tasks that outlive this are on a hung executor."""

POLL_S = 0.1

_log = logging.getLogger(__name__)


class BarrierJob:
    """Runs one order. Calls `failed` from its own thread, at most once.

    After `release` has begun only a failure of Spark's own is reported: it may say why slots are being released. Waits
    up to `executors_timeout_s` for replacements of lost executors.
    """

    def __init__(
        self,
        context: Any,
        pool: str | None,
        executors_timeout_s: float,
        order: SlotOrder,
        failed: Callable[[str, bool], None],
    ) -> None:
        self._context = context
        self._executors_timeout_s = executors_timeout_s
        self._pool = pool
        self._order = order
        self._failed = failed
        self._group = f"snapline-{order.job_id}-{order.generation}"
        self._guard = threading.Lock()
        self._released = threading.Event()
        self._has_returned = False
        self._is_cancelled = False
        self._replaced: set[str] = set()
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)

    def start(self) -> None:
        """Start the Spark job, unless it was released already."""
        with self._guard:
            if not self._released.is_set():
                self._thread.start()

    def release(self, timeout_s: float, silent: SilentSlots = no_slots) -> None:
        """Wait until all tasks have returned; cancel those that do not in time, and replace silent executors."""
        with self._guard:
            self._released.set()
        if self._thread.ident is None:
            return
        self._await_return(timeout_s, silent)
        deadline_s = time.monotonic() + CANCEL_TIMEOUT_S
        self._thread.join(CANCEL_TIMEOUT_S)
        if self._thread.is_alive():
            _log.error("the Spark job of %s did not end after it was cancelled", self._order.job_name)
        if not self._has_returned and not is_stopped(self._context):
            self._free_slots(deadline_s)

    def _await_return(self, timeout_s: float, silent: SilentSlots) -> None:
        """Wait for tasks as long as all may return; then cancel them."""
        deadline_s = time.monotonic() + timeout_s
        while self._thread.is_alive() and not silent() and time.monotonic() < deadline_s:
            self._thread.join(min(POLL_S, timeout_s))
        if not self._thread.is_alive() or is_stopped(self._context):
            return
        _log.warning("slots of %s did not return in time; cancelling their Spark job", self._order.job_name)
        self._is_cancelled = True
        hung = set() if is_local(self._context) else self._executors_with_tasks(silent())
        self._context.cancelJobGroup(self._group)
        for executor in hung:
            self._replace(executor)

    def _run(self) -> None:
        try:
            if not self._await_room():
                return
            # For this thread only: PySpark pins each Python thread to a JVM thread.
            self._context.setJobGroup(self._group, describe_job(self._context, self._order))
            self._context.setLocalProperty("spark.scheduler.pool", self._pool)
            numbers = self._context.parallelize(range(self._order.slots), self._order.slots)
            slots = numbers.barrier().mapPartitions(make_slot_main(self._order))
            with own_python(self._context):
                slots._jrdd  # noqa: B018  # evaluated here, where the interpreter is set
            slots.collect()
        except Exception as error:
            gone = why_gone(self._context)
            message, is_fatal = describe(error) if gone is None else (gone, True)
            if self._is_cancelled:
                _log.debug("after the release of %s: %s", self._order.job_name, message)
            else:
                self._failed(f"the Spark job with the slots has failed: {message}", is_fatal)
        else:
            self._has_returned = True
            if not self._released.is_set():
                self._failed("the Spark job with the slots has ended too early", False)

    def _await_room(self) -> bool:
        """Wait until lost executors are replaced; Spark itself would check only every 15 s, for up to 10 minutes."""
        wait = ExecutorWait(self._context, self._order.slots, self._executors_timeout_s, is_start=False)
        while (available := task_slots(self._context)) < self._order.slots:
            if not wait.goes_on(available):
                self._failed(
                    f"the job needs {self._order.slots} slots and Spark has had room for only {available} tasks for "
                    f"{self._executors_timeout_s:g} s (executors_timeout); find out why executors are missing",
                    False,
                )
                return False
            if self._released.wait(POLL_S):
                return False
        return True

    def _free_slots(self, deadline_s: float) -> None:
        """Wait until no task holds a slot; replace executors that do not free theirs in time."""
        while holders := self._executors_with_tasks(range(self._order.slots)) - self._replaced:
            if time.monotonic() > deadline_s:
                for executor in holders:
                    self._replace(executor)
                return
            time.sleep(POLL_S)

    def _executors_with_tasks(self, slots: Collection[int]) -> set[str]:
        """The executors on which tasks of these slots run."""
        scala = self._context._jsc.sc()
        tracker, store = self._context.statusTracker(), scala.statusStore()
        found: set[str] = set()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                tasks = store.taskList(stage, 0, self._order.slots)
                for index in range(tasks.length()):
                    task = tasks.apply(index)
                    if task.status() == "RUNNING" and task.index() in slots:
                        found.add(str(task.executorId()))
        return found

    def _replace(self, executor: str) -> None:
        if is_local(self._context):
            _log.error("a task of %s did not end after it was cancelled; its slot is lost", self._order.job_name)
            return
        _log.warning("executor %s does not free its slots; replacing it", executor)
        self._replaced.add(executor)
        if not self._context._jsc.sc().killAndReplaceExecutor(executor):
            _log.error("Spark did not replace executor %s; its slots are lost until it ends", executor)


def why_gone(context: Any) -> str | None:
    """Why a SparkContext will never run a job again, or None if it may."""
    try:
        is_over = context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError) as error:
        # The question cannot fail in the JVM: nobody listens any more, or the connection broke in the middle of it.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return f"Spark's JVM on the driver has ended ({reason}); start the program again, and the job goes on"
    return "Spark was stopped" if is_over else None


def is_stopped(context: Any) -> bool:
    """Whether a SparkContext was stopped, or lost its JVM."""
    return why_gone(context) is not None
