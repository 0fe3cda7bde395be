"""Pickles of Python objects in state."""

from __future__ import annotations

import pytest

from snapline.errors import RestoreError, UserCodeError
from snapline.state.pickles import pickled, unpickled


def test_objects_come_back() -> None:
    assert unpickled(pickled({"a": [1, (2, b"x")]})) == {"a": [1, (2, b"x")]}


def test_an_object_that_cannot_be_pickled() -> None:
    with pytest.raises(UserCodeError, match=r"<lambda> at .* cannot be pickled .*declare a type for the state"):
        pickled(lambda: 1)


@pytest.mark.parametrize("data", [b"", b"garbage", b"cnowhere_at_all\nThing\n."])
def test_an_object_that_cannot_be_unpickled(data: bytes) -> None:
    with pytest.raises(RestoreError, match="make its class importable"):
        unpickled(data)
