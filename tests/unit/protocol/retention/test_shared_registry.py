"""The shared-state registry: who uses which file, and when it may be deleted."""

from __future__ import annotations

import pytest

from snapline.errors import EngineError
from snapline.protocol.retention.shared_registry import PLACEHOLDER, Placeholder, SharedStateRegistry, Unused


@pytest.fixture
def registry() -> SharedStateRegistry[str]:
    return SharedStateRegistry()


NOTHING: Unused[str] = Unused(deleted=(), in_use=())


def test_h2_what_the_lowest_checkpoint_uses_is_kept(registry: SharedStateRegistry[str]) -> None:
    registry.register("a", "file-a", 1)
    registry.register("a", "file-a", 2)
    assert registry.unregister_unused(2) == NOTHING
    assert registry.register("a", PLACEHOLDER, 3) == "file-a"


def test_what_only_older_checkpoints_use_is_deleted_in_the_order_it_came(registry: SharedStateRegistry[str]) -> None:
    registry.register("b", "file-b", 1)
    registry.register("a", "file-a", 2)
    registry.register("c", "file-c", 3)
    assert registry.unregister_unused(3) == Unused(deleted=(("b", "file-b"), ("a", "file-a")), in_use=())
    assert registry.unregister_unused(3) == NOTHING


def test_last_used_never_goes_back(registry: SharedStateRegistry[str]) -> None:
    registry.register("a", "file-a", 5)
    registry.register("a", "file-a", 3)
    assert registry.unregister_unused(5) == NOTHING
    assert registry.unregister_unused(6).deleted == (("a", "file-a"),)


def test_register_returns_the_handle_to_store(registry: SharedStateRegistry[str]) -> None:
    assert registry.register("a", "file-a", 1) == "file-a"
    assert registry.register("a", "file-a", 2) == "file-a"
    assert registry.register("a", PLACEHOLDER, 3) == "file-a"
    assert registry.unregister_unused(3) == NOTHING


def test_an_unknown_placeholder_is_an_error(registry: SharedStateRegistry[str]) -> None:
    with pytest.raises(EngineError, match="'a': a placeholder"):
        registry.register("a", PLACEHOLDER, 1)
    assert registry.register("a", "file-a", 1) == "file-a"


def test_a_deleted_key_is_unknown_again(registry: SharedStateRegistry[str]) -> None:
    registry.register("a", "file-a", 1)
    registry.unregister_unused(2)
    with pytest.raises(EngineError, match="placeholder"):
        registry.register("a", PLACEHOLDER, 2)
    assert registry.register("a", "another", 2) == "another"


def test_a_different_handle_is_an_error_and_changes_nothing(registry: SharedStateRegistry[str]) -> None:
    registry.register("a", "file-a", 1)
    with pytest.raises(EngineError, match="'a': 'other' was sent, but 'file-a' is registered"):
        registry.register("a", "other", 2)
    assert registry.unregister_unused(2).deleted == (("a", "file-a"),)


def test_files_of_a_claimed_snapshot_are_deleted_once_unused(registry: SharedStateRegistry[str]) -> None:
    registry.restored(1, {"a": "file-a"}, claim=True, sharing=True)
    assert registry.unregister_unused(1) == NOTHING
    assert registry.unregister_unused(2) == Unused(deleted=(("a", "file-a"),), in_use=())


def test_files_of_an_unclaimed_snapshot_are_forgotten_but_never_deleted(registry: SharedStateRegistry[str]) -> None:
    registry.restored(3, {"a": "file-a"}, claim=False, sharing=True)
    registry.register("b", "file-b", 4)
    registry.register("a", PLACEHOLDER, 4)
    assert registry.unregister_unused(5) == Unused(deleted=(("b", "file-b"),), in_use=())
    with pytest.raises(EngineError, match="placeholder"):
        registry.register("a", PLACEHOLDER, 5)


def test_an_unclaimed_snapshot_protects_older_files_too(registry: SharedStateRegistry[str]) -> None:
    registry.restored(2, {"a": "file-a"}, claim=True, sharing=True)
    registry.restored(5, {"b": "file-b"}, claim=False, sharing=True)
    registry.restored(4, {"c": "file-c"}, claim=False, sharing=True)
    registry.register("d", "file-d", 6)
    assert registry.unregister_unused(7).deleted == (("d", "file-d"),)


def test_a_self_contained_snapshot_is_in_use_while_a_file_inside_it_is(registry: SharedStateRegistry[str]) -> None:
    registry.restored(1, {"a": "file-a", "b": "file-b"}, claim=True, sharing=False)
    registry.register("a", PLACEHOLDER, 2)
    registry.register("a", PLACEHOLDER, 3)
    assert registry.unregister_unused(2) == Unused(deleted=(("b", "file-b"),), in_use=(1,))
    assert registry.unregister_unused(3) == Unused(deleted=(), in_use=(1,))
    assert registry.unregister_unused(4) == Unused(deleted=(("a", "file-a"),), in_use=())


def test_only_the_snapshot_that_created_a_file_is_in_use_for_it(registry: SharedStateRegistry[str]) -> None:
    registry.restored(9, {"b": "file-b"}, claim=True, sharing=False)
    registry.restored(1, {"a": "file-a"}, claim=True, sharing=False)
    registry.restored(2, {"a": "file-a"}, claim=True, sharing=False)
    registry.restored(3, {"c": "file-c"}, claim=True, sharing=True)
    registry.register("d", "file-d", 10)
    assert registry.unregister_unused(0) == Unused(deleted=(), in_use=(1, 9))


def test_a_restore_that_does_not_fit_changes_nothing(registry: SharedStateRegistry[str]) -> None:
    registry.restored(1, {"b": "file-b"}, claim=True, sharing=True)
    misfits: list[dict[str, str | Placeholder]] = [
        {"a": "file-a", "b": "other"},
        {"a": "file-a", "c": PLACEHOLDER},
    ]
    for misfit in misfits:
        with pytest.raises(EngineError, match="shared state"):
            registry.restored(2, misfit, claim=False, sharing=False)
    registry.register("b", PLACEHOLDER, 2)
    assert registry.unregister_unused(2) == NOTHING
    assert registry.unregister_unused(3) == Unused(deleted=(("b", "file-b"),), in_use=())
