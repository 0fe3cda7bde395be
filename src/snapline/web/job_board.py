"""The jobs of one server, and views of them that all viewers share."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from snapline.errors import SnaplineError
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.job_view import JobView
from snapline.text import is_milestone
from snapline.web.monitored_job import MonitoredJob
from snapline.web.record_cache import DetailsCache, RowCache
from snapline.web.rest_errors import RestError, unavailable
from snapline.web.rest_ids import hex_id, is_named

VIEW_AGE_S = 0.25
"""A view is shown this long before another one is asked for."""

MAX_VIEW_AGE_S = 2.0
COST_FACTOR = 50
"""A view that was expensive to show is kept this many times as long as that took, so that 2% of a core is the most."""

VIEW_TIMEOUT_S = 5.0
"""How long the driver may take for a view."""

LIST_TIMEOUT_S = 1.0
"""The same for a list of jobs, which shows the last view of those that are slower."""

MAX_ENDED_JOBS = 50

MAX_ANSWERS_BYTES = 8 << 20
"""Encoded answers kept with each view."""

_log = logging.getLogger(__name__)

encode = msgspec.json.Encoder().encode


class JobAnswers:
    """One view of a job with the answers that were made from it. `rows` and `details` outlive the view."""

    def __init__(self, view: JobView, rows: RowCache, details: DetailsCache) -> None:
        self.view = view
        self.rows = rows
        self.details = details
        self._encoded: dict[str, bytes] = {}
        self._size_bytes = 0
        self._spent_s = 0.0

    @property
    def good_for_s(self) -> float:
        """How long the view may be shown."""
        return min(max(VIEW_AGE_S, COST_FACTOR * self._spent_s), MAX_VIEW_AGE_S)

    def encoded(self, name: str, make: Callable[[], Any]) -> bytes:
        """The answer of this name, which `make` makes when it is asked for the first time."""
        found = self._encoded.get(name)
        if found is None:
            start_s = time.thread_time()
            found = encode(make())
            self._spent_s += time.thread_time() - start_s
            if self._size_bytes + len(found) <= MAX_ANSWERS_BYTES:
                self._encoded[name] = found
                self._size_bytes += len(found)
        return found

    def record(self, checkpoint_id: int) -> CheckpointRecord | None:
        return self.view.statistics.find(checkpoint_id)


class BoardJob:
    """A job on the board. Used on the server's loop, but for its names."""

    def __init__(self, job: MonitoredJob, now_s: Callable[[], float] = time.monotonic) -> None:
        self.job_id = job.job_id
        self.jid = hex_id(job.job_id)
        self.job: MonitoredJob | None = job
        self.can_change = job.can_change
        self._now_s = now_s
        self._rows = RowCache()
        self._details = DetailsCache()
        self._answers: JobAnswers | None = None
        self._made_s = 0.0
        self._defects = 0
        self._fetch: asyncio.Task[JobAnswers] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its last view is known, which stays."""
        return self.job is None

    async def answers(self, timeout_s: float = VIEW_TIMEOUT_S) -> JobAnswers:
        """A view that is at most `VIEW_AGE_S` old, or `MAX_VIEW_AGE_S` if the job is large.

        Raises `RestError` if the driver does not give one in time.
        """
        known = self._answers
        if known is not None and (self.job is None or self._now_s() - self._made_s < known.good_for_s):
            return known
        if self._fetch is None:
            self._fetch = asyncio.create_task(self._fetched())
            self._fetch.add_done_callback(_noted)
        try:
            return await asyncio.wait_for(asyncio.shield(self._fetch), timeout_s)
        except TimeoutError:
            raise unavailable(f"the driver of job {self.job_id} has not answered within {timeout_s:g} s") from None
        except SnaplineError as error:
            raise unavailable(str(error)) from error

    async def latest(self) -> JobAnswers | None:
        """The newest view that can be had soon; None if there is none. Other jobs of a list do not suffer from one."""
        try:
            return await self.answers(LIST_TIMEOUT_S)
        except RestError:
            return self._answers
        except Exception as error:
            self._defects += 1
            if is_milestone(self._defects - 1, self._defects):
                _log.error("job %s: no view of it can be made; this is a defect", self.job_id, exc_info=error)
            return self._answers

    async def _fetched(self) -> JobAnswers:
        assert self.job is not None, "the last view of a job that has ended stays"
        try:
            view = await asyncio.wrap_future(self.job.view())
            if self._answers is None or self._answers.view is not view:
                self._answers = JobAnswers(view, self._rows, self._details)
            self._made_s = self._now_s()
            if view.is_live and view.ended_ms is not None:
                self.job = None
            return self._answers
        finally:
            self._fetch = None


def _noted(fetch: asyncio.Task[JobAnswers]) -> None:
    """An error is told to those who wait for the view; if nobody does any more, nobody misses it."""
    if not fetch.cancelled():
        fetch.exception()


class JobBoard:
    """The jobs of one server, oldest first. Any thread may add and remove; ended jobs stay, but not all."""

    def __init__(self, max_ended: int = MAX_ENDED_JOBS) -> None:
        self._max_ended = max_ended
        self._lock = threading.Lock()
        self._jobs: dict[str, BoardJob] = {}
        self._combined: dict[str, tuple[list[JobAnswers], bytes]] = {}

    def add(self, job: MonitoredJob) -> None:
        """Show a job, in place of an earlier one with the same id."""
        with self._lock:
            self._jobs.pop(job.job_id, None)
            self._jobs[job.job_id] = BoardJob(job)

    def remove(self, job: MonitoredJob) -> bool:
        """Show a job no more. Returns whether it was there."""
        with self._lock:
            found = self._jobs.get(job.job_id)
            if found is None or not (found.job is job or found.has_ended):
                return False
            del self._jobs[job.job_id]
            return True

    @property
    def jobs(self) -> tuple[BoardJob, ...]:
        """All of them. Any thread."""
        with self._lock:
            return tuple(self._jobs.values())

    def find(self, given: str) -> BoardJob | None:
        """The job that a path means."""
        return next((job for job in self.jobs if is_named(given, job.job_id)), None)

    async def all_answers(self) -> list[JobAnswers]:
        """The newest views of all jobs that have one."""
        found = await asyncio.gather(*(job.latest() for job in self.jobs))
        return [answers for answers in found if answers is not None]

    def combined(self, name: str, answers: list[JobAnswers], make: Callable[[], bytes]) -> bytes:
        """What `make` returns for these views of jobs; it is made anew if one of them is another one."""
        known = self._combined.get(name)
        if known is None or known[0] != answers:
            known = self._combined[name] = (answers, make())
        return known[1]

    async def tidy(self) -> None:
        """Find out which jobs have ended, and drop the oldest of them if they are too many."""
        await self.all_answers()
        with self._lock:
            ended = [job_id for job_id, job in self._jobs.items() if job.has_ended]
            for job_id in ended[: max(len(ended) - self._max_ended, 0)]:
                del self._jobs[job_id]
