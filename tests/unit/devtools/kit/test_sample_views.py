from __future__ import annotations

from snapline.devtools.kit.sample_views import ScriptedJob, long_history, sample_record, sample_statistics, sample_view
from snapline.protocol.statistics.checkpoint_records import CheckpointStatus
from snapline.protocol.statistics.packed_subtasks import PackedSubtasks
from snapline.types import CheckpointScope


def test_a_view_has_every_kind_of_checkpoint() -> None:
    statistics = sample_statistics(4)
    assert [record.status for record in statistics.history] == [
        CheckpointStatus.IN_PROGRESS,
        CheckpointStatus.COMPLETED,
        CheckpointStatus.COMPLETED,
        CheckpointStatus.FAILED,
    ]
    assert statistics.latest.savepoint is statistics.history[2]
    view = sample_view()
    assert {subtask.id.vertex for subtask in view.subtasks} == {vertex.id for vertex in view.plan.vertices}


def test_a_packed_record_says_the_same() -> None:
    plain, packed = sample_record(1), sample_record(1, packed=True)
    assert isinstance(packed.vertices[0].subtasks, PackedSubtasks)
    assert packed == plain


def test_a_long_history_has_its_subtasks() -> None:
    statistics = long_history(100, 50)
    assert [record.id for record in statistics.history] == list(range(100, 0, -1))
    assert {record.totals.subtasks for record in statistics.history} == {50}
    assert statistics.latest.completed is statistics.history[0]


def test_requests_of_a_scripted_job_wait_for_an_answer() -> None:
    job = ScriptedJob(sample_view())
    future = job.checkpoint(CheckpointScope.FULL)
    assert not future.done()
    job.futures[0].set_result("/data/chk-1")
    assert future.result() == "/data/chk-1"
    assert job.requests == [("checkpoint", CheckpointScope.FULL)]
