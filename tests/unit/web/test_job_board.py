from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from snapline.devtools.kit.sample_views import ScriptedJob, sample_view
from snapline.errors import TransientError
from snapline.types import JobStatus
from snapline.web.job_board import MAX_ANSWERS_BYTES, MAX_VIEW_AGE_S, VIEW_AGE_S, BoardJob, JobBoard
from snapline.web.rest_errors import RestError
from snapline.web.rest_ids import hex_id


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_all_viewers_share_a_view_while_it_is_young() -> None:
    async def look() -> None:
        clock, job = Clock(), ScriptedJob(sample_view())
        shown = BoardJob(job, clock)
        first = await asyncio.gather(*(shown.answers() for _ in range(10)))
        assert all(answers.view is job.shown for answers in first)
        clock.now_s += VIEW_AGE_S * 0.9
        assert await shown.answers() is first[0]
        assert job.views_asked == 1
        clock.now_s += VIEW_AGE_S
        assert await shown.answers() is first[0], "nothing has changed, so the answers are still good"
        assert job.views_asked == 2
        clock.now_s += VIEW_AGE_S
        job.shown = sample_view()
        assert await shown.answers() is not first[0]

    asyncio.run(look())


def test_an_answer_is_encoded_once() -> None:
    async def look() -> None:
        answers = await BoardJob(ScriptedJob(sample_view())).answers()
        made: list[int] = []

        def make() -> list[int]:
            made.append(1)
            return made

        assert answers.encoded("one", make) == answers.encoded("one", make) == b"[1]"
        assert len(answers.encoded("large", lambda: "x" * MAX_ANSWERS_BYTES)) == MAX_ANSWERS_BYTES + 2
        assert answers.encoded("large", lambda: "small") == b'"small"', "there was no room for it"
        assert answers.encoded("one", make) == b"[1]"

    asyncio.run(look())


def test_a_view_that_is_expensive_to_show_is_kept_longer() -> None:
    async def look() -> None:
        answers = await BoardJob(ScriptedJob(sample_view())).answers()
        assert answers.good_for_s == VIEW_AGE_S
        answers.encoded("expensive", lambda: sum(range(2_000_000)))
        assert VIEW_AGE_S < answers.good_for_s <= MAX_VIEW_AGE_S

    asyncio.run(look())


def test_lists_are_made_once_for_the_same_views() -> None:
    async def look() -> None:
        board, made = JobBoard(), list[int]()
        board.add(ScriptedJob(sample_view()))

        def make() -> bytes:
            made.append(1)
            return b"x" * len(made)

        assert board.combined("list", await board.all_answers(), make) == b"x"
        assert board.combined("list", await board.all_answers(), make) == b"x"
        board.add(ScriptedJob(sample_view("other")))
        assert board.combined("list", await board.all_answers(), make) == b"xx"

    asyncio.run(look())


def test_the_last_view_of_a_job_stays_and_the_job_is_let_go() -> None:
    async def look() -> None:
        job = ScriptedJob(sample_view(status=JobStatus.FINISHED))
        shown = BoardJob(job)
        answers = await shown.answers()
        assert shown.has_ended
        assert await shown.answers() is answers
        assert job.views_asked == 1

    asyncio.run(look())


def test_stored_jobs_are_read_again() -> None:
    async def look() -> None:
        clock = Clock()
        job = ScriptedJob(replace(sample_view(status=JobStatus.FINISHED), is_live=False))
        shown = BoardJob(job, clock)
        await shown.answers()
        clock.now_s += VIEW_AGE_S
        await shown.answers()
        assert job.views_asked == 2

    asyncio.run(look())


def test_a_driver_that_does_not_answer() -> None:
    async def look() -> None:
        clock, job = Clock(), ScriptedJob(sample_view())
        job.answers_views = False
        shown = BoardJob(job, clock)
        with pytest.raises(RestError, match="has not answered") as refused:
            await shown.answers(0.01)
        assert refused.value.status == 503
        with pytest.raises(RestError):
            await shown.answers(0.01)
        assert job.views_asked == 1, "nobody is asked again before he has answered"

    asyncio.run(look())


def test_a_job_that_starts_is_not_there_yet(caplog: pytest.LogCaptureFixture) -> None:
    async def look() -> None:
        job = ScriptedJob(sample_view())
        job.shown = TransientError("job 'clicks' is starting")
        board = JobBoard()
        board.add(job)
        with pytest.raises(RestError, match="is starting"):
            await board.jobs[0].answers()
        assert await board.all_answers() == []

    asyncio.run(look())
    assert caplog.records == []


def test_one_job_that_cannot_be_shown_does_not_hide_others(caplog: pytest.LogCaptureFixture) -> None:
    async def look() -> None:
        good, bad = ScriptedJob(sample_view("good")), ScriptedJob(sample_view("bad"))
        bad.shown = ZeroDivisionError("a defect")
        board = JobBoard()
        board.add(bad)
        board.add(good)
        for _ in range(5):
            assert [answers.view.job_id for answers in await board.all_answers()] == ["good"]
        with pytest.raises(ZeroDivisionError):
            await board.jobs[0].answers()

    with caplog.at_level(logging.ERROR):
        asyncio.run(look())
    assert [record.message for record in caplog.records] == ["job bad: no view of it can be made; this is a defect"]


def test_jobs_are_found_by_either_id_and_the_newest_of_an_id_counts() -> None:
    board, first, second = JobBoard(), ScriptedJob(sample_view()), ScriptedJob(sample_view())
    board.add(first)
    board.add(second)
    found = board.find(hex_id("clicks"))
    assert found is not None
    assert found.job is second
    assert board.find("clicks") is found
    assert board.find("none") is None
    assert not board.remove(first)
    assert board.remove(second)
    assert not board.remove(second)
    assert board.jobs == ()


def test_of_the_jobs_that_have_ended_the_oldest_go() -> None:
    async def look() -> None:
        board = JobBoard(max_ended=2)
        jobs = [ScriptedJob(sample_view(f"job-{number}", status=JobStatus.FAILED)) for number in range(4)]
        running = ScriptedJob(sample_view("running"))
        for job in (running, *jobs):
            board.add(job)
        await board.tidy()
        assert [job.job_id for job in board.jobs] == ["running", "job-2", "job-3"]
        assert board.remove(jobs[3])

    asyncio.run(look())
