from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.sql.expressions.registry import SparkError
from snapline.sql.lowering.overflows import overflow_rule

RESULTS, FLAGS = pa.array([1, -5]), np.array([False, True])


def rule(mode: str) -> list[int | None]:
    found: list[int | None] = overflow_rule(kit.call("Sum", pa.int64(), evalMode=mode))(RESULTS, FLAGS).to_pylist()
    return found


def test_each_mode_has_its_rule() -> None:
    assert rule("LEGACY") == [1, -5]
    assert rule("TRY") == [1, None]
    with pytest.raises(SparkError, match="ARITHMETIC_OVERFLOW"):
        rule("ANSI")
