"""Answers about 10,000 checkpoints of 1,000 subtasks, by the processor time they take: machines of tests are busy."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace

import pytest
from tests.unit.web.rest_kit import Rest

from snapline.devtools.kit.sample_views import ScriptedJob, long_history, sample_view
from snapline.protocol.statistics.job_view import JobView
from snapline.web import job_board
from snapline.web.rest_ids import hex_id

pytestmark = pytest.mark.slow

CHECKPOINTS, SUBTASKS, REQUESTS = 10_000, 1000, 20
LIMIT_S = 0.1


def test_a_long_history_is_answered_within_100_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_board, "VIEW_AGE_S", 0.0)
    monkeypatch.setattr(job_board, "MAX_VIEW_AGE_S", 0.0)
    vertices = ("clicks", "out")
    history = long_history(CHECKPOINTS, SUBTASKS, vertices)
    job = ScriptedJob(sample_view(vertices=dict.fromkeys(vertices, SUBTASKS // 2), statistics=history))
    app, own, flink = Rest(job), "/snapline/jobs/clicks", f"/jobs/{hex_id('clicks')}"

    async def ask() -> dict[str, list[float]]:
        times: dict[str, list[float]] = {}
        random.seed(4711)
        for number in range(REQUESTS):
            # Another view each time, with another newest checkpoint.
            view = job.shown
            assert isinstance(view, JobView)
            newest = replace(view.statistics.history[0], id=CHECKPOINTS + number + 1)
            job.shown = replace(view, statistics=replace(history, history=(newest, *view.statistics.history[:-1])))
            any_id = random.randint(CHECKPOINTS // 2, CHECKPOINTS)
            for path in (
                own,
                f"{own}/checkpoints?limit=100",
                f"{own}/checkpoints?limit=100&before={any_id}",
                f"{own}/checkpoints/{any_id}",
                f"{flink}/checkpoints",
                f"{flink}/checkpoints/details/{any_id}",
                f"{flink}/checkpoints/details/{any_id}/subtasks/{hex_id('out')}",
            ):
                start_s = time.thread_time()
                reply = await app.asked("GET", path)
                times.setdefault(path.replace(str(any_id), "id"), []).append(time.thread_time() - start_s)
                assert reply.status == 200
        return times

    for path, found in asyncio.run(ask()).items():
        slowest = sorted(found)[-2:]
        assert slowest[0] < LIMIT_S, f"{path}: {slowest}"
