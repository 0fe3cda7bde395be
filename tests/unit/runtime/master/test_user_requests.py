"""Requests for snapshots as users make them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapline.config import Checkpoints
from snapline.errors import ConfigurationError
from snapline.runtime.master.user_requests import checkpoint_request, snapshot_request
from snapline.types import CheckpointScope, SavepointFormat, SnapshotKind


def test_a_checkpoint_of_a_scope() -> None:
    request = checkpoint_request(Checkpoints(), CheckpointScope.FULL)
    assert (request.kind, request.scope, request.periodic) == (SnapshotKind.CHECKPOINT, CheckpointScope.FULL, False)


def test_every_request_has_a_name_of_its_own() -> None:
    names = {checkpoint_request(Checkpoints(), CheckpointScope.CONFIGURED).name for _ in range(10)}
    assert len(names) == 10


def test_a_savepoint_goes_where_it_is_told_or_where_the_settings_say() -> None:
    settings = Checkpoints(savepoint_dir="s3://bucket/savepoints/", savepoint_format="native")
    request = snapshot_request(settings, None, None, stop=False)
    assert (request.kind, request.target) == (SnapshotKind.SAVEPOINT, "s3://bucket/savepoints")
    assert request.format is SavepointFormat.NATIVE
    told = snapshot_request(settings, Path("/elsewhere"), SavepointFormat.CANONICAL, stop=False)
    assert (told.target, told.format) == ("/elsewhere", SavepointFormat.CANONICAL)


def test_a_relative_directory_means_that_of_the_driver() -> None:
    request = snapshot_request(Checkpoints(), "here", None, stop=False)
    assert request.target == os.path.abspath("here")


def test_a_savepoint_to_stop_with_may_drain() -> None:
    request = snapshot_request(Checkpoints(), "/d", None, stop=True, drain=True)
    assert (request.kind, request.drain) == (SnapshotKind.SYNC_SAVEPOINT, True)


@pytest.mark.parametrize("directory", ["", "  ", None])
def test_a_savepoint_needs_a_directory(directory: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"directory|savepoint_dir"):
        snapshot_request(Checkpoints(), directory, None, stop=False)
