"""Objects of older attempts that no canonical snapshot refers to: a recovery may delete them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from snapline.protocol.snapshot import Snapshot


def orphans(
    objects: Iterable[tuple[str, int]], canonical: Sequence[Snapshot], attempt: int, *, ended: bool = False
) -> tuple[str, ...]:
    """The paths to delete, given each object's path and the attempt in its name.

    Call it after `attempt` has claimed the job: older attempts can publish nothing more, so anything they left that no
    canonical snapshot needs is waste. Once the job has `ended`, this holds for its last attempt as well.
    """
    needed = {item.path for snapshot in canonical for item in snapshot.objects()}
    needed.update(snapshot.metadata_path for snapshot in canonical)
    return tuple(
        path
        for path, made_by in objects
        if (made_by < attempt or (ended and made_by == attempt)) and path not in needed
    )
