from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.sql.expressions.registry import SparkError
from snapline.sql.expressions.spark_errors import raise_division_by_zero, raise_out_of_range, raise_overflow


def test_conditions() -> None:
    with pytest.raises(SparkError, match="REMAINDER_BY_ZERO"):
        raise_division_by_zero("Pmod")
    with pytest.raises(SparkError, match="INTERVAL_ARITHMETIC_OVERFLOW"):
        raise_overflow(pa.duration("us"), "+")
    with pytest.raises(SparkError, match=r"Decimal\(5, 2\)"):
        raise_out_of_range(pa.decimal128(5, 2))
