"""User code on the driver: coordinators of sources, and master hooks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.runtime.master.master_kit import CHECKPOINTS, MasterBench, Splits, make_spec

import snapline as sl
from snapline.errors import UserCodeError
from snapline.graph.job_spec import JobSpec
from snapline.runtime.master.job_recovery import claim, recover
from snapline.runtime.master.operator_coordinators import (
    OperatorCoordinators,
    inline,
    prepare_coordinators,
    snapshot_hook,
)


class Hook(sl.MasterHook):
    """Keeps what it is called with; fails if it should."""

    name = "hook"

    def __init__(self, problem: Exception | None = None) -> None:
        self.calls: list[Any] = []
        self.problem = problem

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        if self.problem is not None:
            raise self.problem
        self.calls.append(checkpoint_id)
        return b"state"

    def reset(self) -> None:
        if self.problem is not None:
            raise self.problem
        self.calls.append("reset")

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        self.calls.append((checkpoint_id, state))


def prepared(spec: JobSpec) -> OperatorCoordinators:
    """The coordinators of a first attempt."""
    bench = MasterBench(spec)
    bench.blocking(lambda: claim(bench.storage.archive, 0))
    recovery = bench.blocking(lambda: recover(spec, bench.storage, 1))
    return bench.blocking(lambda: prepare_coordinators(spec, recovery, bench.storage.objects))


def test_splits_are_assigned_and_what_was_is_in_the_snapshot() -> None:
    coordinators = prepared(make_spec(checkpoints=CHECKPOINTS))
    assert coordinators.vertices == {"read": "read"}
    before = coordinators.snapshot("read")
    ((subtask, event),) = coordinators.assign("read", 0)
    assert subtask == 0
    assert event is not None
    assert coordinators.snapshot("read") != before


def test_errors_of_a_source_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def splits(self: Splits, parallelism: int) -> Any:
        raise OSError("no such directory")

    monkeypatch.setattr(Splits, "splits", splits)
    with pytest.raises(UserCodeError, match="splits of the source 'read' failed: OSError: no such directory"):
        prepared(make_spec(checkpoints=CHECKPOINTS))


def test_hooks_are_reset_at_the_beginning_and_restored_with_what_they_kept() -> None:
    hook = Hook()
    spec = make_spec(checkpoints=CHECKPOINTS, hooks={"hook": hook})
    first = MasterBench(spec)
    first.begin()
    first.request()
    first.acknowledge(1)
    storage = first.other_driver()
    first.blocking(lambda: claim(storage.archive, 0))
    recovery = first.blocking(lambda: recover(spec, storage, 2))
    first.blocking(lambda: prepare_coordinators(spec, recovery, storage.objects))
    assert hook.calls == ["reset", 1, (1, b"state")]


def test_errors_of_a_hook_name_it() -> None:
    spec = make_spec(checkpoints=CHECKPOINTS, hooks={"mine": Hook(ValueError("no"))})
    with pytest.raises(UserCodeError, match="snapshot of the master hook 'mine' failed: ValueError: no"):
        snapshot_hook(spec, "mine", 3)
    with pytest.raises(UserCodeError, match="reset of the master hook 'mine' failed: ValueError: no"):
        prepared(spec)


def test_small_state_stands_in_the_metadata_with_its_checksum() -> None:
    stored = inline("read", 2, 7, b"abc")
    assert (stored.path, stored.size_bytes, stored.data) == ("inline:2/7/read", 3, b"abc")
    assert stored.crc32 != inline("read", 2, 7, b"abd").crc32
