"""What a recovery may sweep away: objects of older attempts that nothing canonical refers to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from snapline.protocol.snapshot import Snapshot


def orphans(
    objects: Iterable[tuple[str, int]], canonical: Sequence[Snapshot], attempt: int, *, ended: bool = False
) -> tuple[str, ...]:
    """The paths that can go, given each object's path and the attempt in its name.

    Called after `attempt` has claimed the job: no older attempt can make anything canonical any more, so what it left
    and no canonical snapshot needs is waste. Once the job has `ended`, its own last attempt's leftovers go as well.
    """
    needed = {item.path for snapshot in canonical for item in snapshot.objects()}
    needed.update(snapshot.metadata_path for snapshot in canonical)
    return tuple(
        path
        for path, made_by in objects
        if (made_by < attempt or (ended and made_by == attempt)) and path not in needed
    )
