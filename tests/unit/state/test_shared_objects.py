"""Which objects can be reused: those of the last complete checkpoint."""

from __future__ import annotations

from snapline.protocol.snapshot import StoredObject
from snapline.state.shared_objects import SharedObjects

A, B = StoredObject("a", 1), StoredObject("b", 1)


def test_what_a_complete_checkpoint_refers_to_can_be_reused() -> None:
    shared = SharedObjects[str]()
    shared.offer(1, {"a": A})
    assert shared.reusable() == {}
    shared.confirm(1)
    assert shared.reusable() == {"a": A}
    shared.offer(2, {"a": A, "b": B})
    shared.abort(2)
    shared.confirm(2)
    assert shared.reusable() == {"a": A}, "an aborted checkpoint is never complete"


def test_older_offers_are_forgotten() -> None:
    shared = SharedObjects[str]()
    shared.offer(1, {"a": A})
    shared.offer(2, {"b": B})
    shared.confirm(2)
    shared.confirm(1)
    assert shared.reusable() == {"b": B}


def test_a_restored_checkpoint_is_complete() -> None:
    shared = SharedObjects[str]()
    shared.restored({"a": A})
    shared.reusable().clear()
    assert shared.reusable() == {"a": A}
