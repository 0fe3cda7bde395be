"""Settings that contradict the operators of a job."""

from __future__ import annotations

from typing import Any

import pytest

import snapline as sl
from snapline.graph.setting_conflicts import check_settings


def job(sink: sl.Sink, *, rows: int | None = 10, execution: sl.Execution | None = None, **checkpoints: Any) -> sl.Job:
    made = sl.Job("x", checkpoints=sl.Checkpoints(**checkpoints), execution=execution)
    made.source(sl.sources.Rate(rows=rows), "rate").sink(sink, "out")
    return made


def check(made: sl.Job) -> None:
    check_settings(made, made.nodes)


@pytest.mark.parametrize("rows", [10, None], ids=["bounded", "endless"])
@pytest.mark.parametrize("settings", [{"interval": "1s"}, {"storage": "/chk"}], ids=["periodic", "resumable"])
def test_a_sink_that_commits_needs_checkpoints_after_tasks_have_finished(
    rows: int | None, settings: dict[str, Any]
) -> None:
    made = job(sl.sinks.Files("out"), rows=rows, after_tasks_finish=False, **settings)
    with pytest.raises(sl.ConfigurationError, match=r"after_tasks_finish=False: .* the sink 'out' could not commit"):
        check(made)


def test_checkpoints_may_end_with_the_first_task_if_nothing_is_committed_or_nothing_goes_back() -> None:
    check(job(sl.sinks.Foreach(print), interval="1s", after_tasks_finish=False))
    check(job(sl.sinks.Files("out"), after_tasks_finish=False))


@pytest.mark.parametrize(
    ("made", "warning"),
    [
        (job(sl.sinks.Files("out"), rows=None), "the sink 'out' commits only with checkpoints"),
        (job(sl.sinks.Foreach(print), interval="1s", incremental=True), "incremental=True has no effect"),
    ],
)
def test_settings_without_effect_are_warned_of(made: sl.Job, warning: str, caplog: pytest.LogCaptureFixture) -> None:
    check(made)
    assert [record.message for record in caplog.records if warning in record.message]


def test_settings_that_fit_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check(job(sl.sinks.Files("out"), rows=None, interval="1s"))
    check(job(sl.sinks.Files("out")))
    check(job(sl.sinks.Foreach(print), rows=None))
    rocksdb = sl.Execution(state_backend="rocksdb")
    check(job(sl.sinks.Files("out"), interval="1s", incremental=True, execution=rocksdb))
    assert caplog.records == []
