"""Makes the requests for snapshots that users ask for."""

from __future__ import annotations

import uuid
from dataclasses import replace
from os import fspath

from snapline.config import Checkpoints, Path
from snapline.errors import ConfigurationError
from snapline.protocol.coordinator.request_decider import TriggerRequest, is_forced, savepoint_request
from snapline.runtime.master.job_storage import absolute
from snapline.types import CheckpointScope, SavepointFormat, SnapshotKind

_NOT_YET_MS = 0
"""The time of a request is set by the clock of the master, when it takes the request."""


def checkpoint_request(checkpoints: Checkpoints, scope: CheckpointScope) -> TriggerRequest:
    kind = SnapshotKind.CHECKPOINT
    forced = is_forced(kind, unaligned=checkpoints.unaligned)
    return TriggerRequest(_name(), kind, forced, False, _NOT_YET_MS, scope=scope)


def snapshot_request(
    checkpoints: Checkpoints,
    directory: Path | None,
    format: SavepointFormat | None,
    *,
    stop: bool,
    drain: bool = False,
) -> TriggerRequest:
    """A savepoint, perhaps one to stop with. Raises `ConfigurationError` if no directory is given or configured."""
    target = None if directory is None else fspath(directory)
    if target is not None and not target.strip():
        raise ConfigurationError("a savepoint needs a directory; the one that was given is empty")
    request = savepoint_request(_name(), checkpoints, _NOT_YET_MS, target=target, stop=stop, drain=drain)
    return replace(request, target=absolute(str(request.target)), format=format or request.format)


def _name() -> str:
    return f"user-{uuid.uuid4().hex}"
