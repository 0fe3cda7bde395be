"""Places of numbers in bitmaps of 32,768 bits, and the bits that are set."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import Integers, truncated_division
from snapline.sql.expressions.integers import Computed, strict
from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.plans.trees import Expression

_BITS = 8 * 4096


@kernel("BitmapBitPosition")
def _position(expression: Expression) -> Kernel:
    def compute(values: Integers) -> Computed:
        # The opposite of the lowest number is itself, as in Java.
        return np.fmod(np.where(values > 0, values - 1, np.negative(values)), _BITS)

    return strict(compute, expression.type)


@kernel("BitmapBucketNumber")
def _bucket(expression: Expression) -> Kernel:
    def compute(values: Integers) -> Computed:
        positive = values > 0
        return np.asarray(truncated_division(np.where(positive, values - 1, values), _BITS) + positive)

    return strict(compute, expression.type)


@kernel("BitmapCount")
def _count(_expression: Expression) -> Kernel:
    return rowwise(lambda data: int.from_bytes(data).bit_count(), pa.int64())
