"""Pickles of Python objects in state."""

from __future__ import annotations

import pickle
from typing import Any

from snapline.errors import RestoreError, UserCodeError
from snapline.text import error_text, explanation, shortened


def pickled(value: Any) -> bytes:
    """Pickle an object of a state. Raises `UserCodeError` if that fails."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        raise UserCodeError(
            f"{shortened(value)} cannot be pickled ({explanation(error)}), which a state of any Python object "
            "requires; keep something that can, or declare a type for the state"
        ) from error


def unpickled(data: bytes) -> Any:
    """Unpickle an object of a state. Only for state written by this job or one it was restored from."""
    try:
        return pickle.loads(data)  # noqa: S301
    except Exception as error:
        raise RestoreError(
            f"an object of a state cannot be unpickled ({error_text(error)}); make its class importable "
            "under the name it had"
        ) from error
