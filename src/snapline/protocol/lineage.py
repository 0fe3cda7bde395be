"""Lineages: which checkpoints and which output belong to one line of history."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.types import NO_CHECKPOINT


@dataclass(frozen=True, slots=True)
class Lineage:
    """One line of checkpoints, from a start of a job to its end, through all its restarts and drivers.

    A job that starts from scratch begins one, and so does a job that starts from a snapshot of another: then `parent`
    is that snapshot's lineage and `parent_checkpoint` its id. Checkpoint ids rise within a lineage; those of two
    lineages say nothing about each other. `id` is "" for snapshots of versions that had none.
    """

    id: str = ""
    parent: str = ""
    parent_checkpoint: int = NO_CHECKPOINT


UNKNOWN_LINEAGE = Lineage()


def next_lineage(restored: Lineage | None, checkpoint_id: int, *, is_own: bool, fresh: str, job_id: str) -> Lineage:
    """The lineage of an attempt that starts from a snapshot of this lineage and id, or from scratch (None).

    `is_own` says that the job itself took the snapshot; `fresh` is an id that no other lineage has.
    """
    if restored is None:
        return Lineage(fresh)
    if is_own:
        return restored if restored.id else Lineage(job_id)
    return Lineage(fresh, restored.id, checkpoint_id)
