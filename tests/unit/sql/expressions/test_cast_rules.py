from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from snapline.sql.expressions.cast_rules import CastRules
from snapline.sql.expressions.registry import SparkError

THERE, BAD = np.array([True, True, False]), np.array([False, True, True])


def test_bad_rows_raise_in_ansi_mode_only() -> None:
    with pytest.raises(SparkError, match="CAST_OVERFLOW"):
        CastRules("ANSI", None).without(BAD, THERE, "CAST_OVERFLOW", pa.int8())
    assert CastRules("TRY", None).without(BAD, THERE, "CAST_OVERFLOW", pa.int8()).tolist() == [True, False, False]


def test_bad_rows_that_are_null_do_not_count() -> None:
    bad = np.array([False, False, True])
    assert CastRules("ANSI", None).without(bad, THERE, "CAST_OVERFLOW", pa.int8()).tolist() == THERE.tolist()


def test_texts_that_cannot_be_parsed() -> None:
    array = pa.array(["1", "", None])
    with pytest.raises(SparkError, match="CAST_INVALID_INPUT"):
        CastRules("ANSI", None).parsed(array, lambda text: int(text) if text else None, pa.int64())
    parsed = CastRules("LEGACY", None).parsed(array, lambda text: int(text) if text else None, pa.int64())
    assert parsed.to_pylist() == [1, None, None]
