"""Notes in the directory of a snapshot about the lineages that began with it, so that a second start is noticed."""

from __future__ import annotations

import logging

from snapline.errors import StorageError
from snapline.storage.objects.object_store import ObjectStore

_PREFIX = "_fork-"

_log = logging.getLogger(__name__)


def forks(objects: ObjectStore, location: str) -> list[str]:
    """The lineages that began with the snapshot in this directory, as far as they are noted."""
    names = [entry.path.rpartition("/")[2] for entry in objects.list(location)]
    return sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))


def note_fork(objects: ObjectStore, location: str, lineage: str) -> None:
    """Note that a lineage begins with the snapshot. Its directory may be read-only: that is no reason not to start."""
    try:
        objects.write(f"{location}/{_PREFIX}{lineage}", b"")
    except StorageError as error:
        _log.warning("a second start from %s will not be noticed: this one cannot be noted: %s", location, error)
