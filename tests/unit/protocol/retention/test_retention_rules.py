"""Retention: which completed checkpoints go as others come, and which outlive the job."""

from __future__ import annotations

import pytest

from snapline.errors import ConfigurationError
from snapline.protocol.retention.retention_rules import StoredSnapshot, keeps, subsumed
from snapline.types import ExternalizedRetention, JobStatus, SnapshotKind

KINDS = {"c": SnapshotKind.CHECKPOINT, "s": SnapshotKind.SAVEPOINT, "S": SnapshotKind.SYNC_SAVEPOINT}


def snapshot(name: str) -> StoredSnapshot:
    return StoredSnapshot(int(name[1:]), KINDS[name[0]])


def retained_after(added: str, limit: int) -> str:
    """The store after one addition at a time: c is a checkpoint, s a savepoint, S one to stop with."""
    entries: list[str] = []
    for name in added.split():
        entries.append(name)
        dropped = subsumed([snapshot(entry) for entry in entries], limit)
        entries = [entry for entry in entries if snapshot(entry) not in dropped]
    return " ".join(entries)


@pytest.mark.parametrize(
    ("limit", "added", "retained"),
    [
        (1, "c1 c2 s3 s4 s5", "c2 s5"),
        (1, "c1", "c1"),
        (1, "c1 c2 c3", "c3"),
        (2, "c1 c2 c3", "c2 c3"),
        (3, "c1 c2", "c1 c2"),
        (1, "s1", "s1"),
        (1, "s1 s2", "s2"),
        (1, "s1 c2", "c2"),
        (1, "c1 s2 c3", "c3"),
        (2, "c1 s2 c3", "s2 c3"),
        (2, "c1 s2 s3", "c1 s3"),
        (2, "c1 c2 s3 s4", "c2 s4"),
        (3, "c1 c2 s3 s4", "c2 s3 s4"),
        (1, "c1 S2", "S2"),
        (1, "c1 s2 S3", "S3"),
        (2, "c1 s2 S3", "s2 S3"),
        (1, "c1 S2 s3", "s3"),
        (1, "S1 c2", "c2"),
    ],
)
def test_what_remains(limit: int, added: str, retained: str) -> None:
    assert retained_after(added, limit) == retained


def test_the_oldest_are_dropped_first_and_the_last_checkpoint_is_passed_over() -> None:
    entries = [snapshot(name) for name in ("c1", "s2", "c3", "s4", "s5", "s6")]
    assert subsumed(entries, 2) == tuple(snapshot(name) for name in ("c1", "s2", "s4", "s5"))
    assert subsumed(entries, 1) == tuple(snapshot(name) for name in ("c1", "s2", "s4", "s5"))
    assert subsumed(entries, 4) == tuple(snapshot(name) for name in ("c1", "s2"))


def test_an_empty_store_drops_nothing() -> None:
    assert subsumed([], 1) == ()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_store_that_retains_nothing_is_refused(limit: int) -> None:
    with pytest.raises(ConfigurationError, match="keep at least 1"):
        subsumed([snapshot("c1")], limit)


ENDS = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED)


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (ExternalizedRetention.NO_EXTERNALIZED, (False, False, False, False)),
        (ExternalizedRetention.DELETE_ON_CANCELLATION, (False, False, True, False)),
        (ExternalizedRetention.RETAIN_ON_CANCELLATION, (False, True, True, True)),
    ],
)
def test_which_checkpoints_outlive_the_job(policy: ExternalizedRetention, kept: tuple[bool, ...]) -> None:
    assert tuple(keeps(policy, status) for status in ENDS) == kept


@pytest.mark.parametrize("policy", ExternalizedRetention)
@pytest.mark.parametrize("status", [status for status in JobStatus if status not in ENDS])
def test_a_job_that_has_not_ended_keeps_its_checkpoints(policy: ExternalizedRetention, status: JobStatus) -> None:
    assert keeps(policy, status)
