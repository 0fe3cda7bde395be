"""Errors travel between processes and keep what they carry."""

from __future__ import annotations

import pickle

import pytest

from snapline import errors
from snapline.state.stable_hash import NullKeyError
from snapline.storage.journals.journal_client import PublicationFencedError

ERRORS: list[errors.SnaplineError] = [
    errors.ConfigurationError("wrong"),
    errors.StorageError("gone", possibly_inconsistent=True),
    errors.ObjectNotFoundError("not there", path="/x"),
    errors.FencedError("stop", attempt=1, current=2),
    errors.IllegalTransitionError("machine", "state", "cause"),
    NullKeyError("user"),
    PublicationFencedError("stop", attempt=1, current=2, possibly_inconsistent=True, is_own=False),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_pickling(error: errors.SnaplineError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))
