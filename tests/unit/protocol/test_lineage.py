"""Which checkpoints belong to one line of history."""

from __future__ import annotations

from snapline.protocol.lineage import UNKNOWN_LINEAGE, Lineage, next_lineage


def test_a_start_from_scratch_begins_a_lineage() -> None:
    assert next_lineage(None, -1, is_own=False, fresh="job.1", job_id="job") == Lineage("job.1")


def test_a_restart_goes_on_with_it() -> None:
    kept = Lineage("job.1", "other.3", 7)
    assert next_lineage(kept, 9, is_own=True, fresh="job.2", job_id="job") == kept


def test_a_start_from_a_snapshot_of_another_job_begins_one_with_a_parent() -> None:
    made = next_lineage(Lineage("old.1"), 40, is_own=False, fresh="job.2", job_id="job")
    assert made == Lineage("job.2", "old.1", 40)


def test_a_job_of_a_version_without_lineages_keeps_the_names_it_had() -> None:
    assert next_lineage(UNKNOWN_LINEAGE, 9, is_own=True, fresh="job.2", job_id="job") == Lineage("job")
    assert next_lineage(UNKNOWN_LINEAGE, 9, is_own=False, fresh="job.2", job_id="job") == Lineage("job.2", "", 9)
