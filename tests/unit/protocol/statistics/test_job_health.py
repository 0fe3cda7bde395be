"""The words of a job's health."""

from __future__ import annotations

from snapline.protocol import statistics
from snapline.protocol.statistics.job_health import HEALTHY, Health, HealthIssue, HealthLevel, HealthNote


def test_a_healthy_job_has_no_notes() -> None:
    assert Health(HealthLevel.GOOD, "healthy") == HEALTHY


def test_a_note_is_about_the_whole_job_unless_it_names_a_subtask() -> None:
    note = HealthNote(HealthLevel.BAD, HealthIssue.RESTART_LOOP, "the same error again")
    assert (note.vertex, note.subtask, note.advice) == ("", None, "")


def test_users_can_name_levels_and_issues() -> None:
    assert statistics.HealthLevel("bad") is HealthLevel.BAD
    assert statistics.HealthIssue("idle source") is HealthIssue.IDLE_SOURCE
