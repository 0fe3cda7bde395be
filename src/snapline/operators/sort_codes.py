"""Columns as numbers that sort alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def sort_codes(column: pa.Array, *, descending: bool) -> npt.NDArray[Any]:
    """A number for each row; ascending numbers are in the requested order of the values.

    NaN, then nulls, come last either way. Numbers of different calls cannot be compared.
    """
    kind = column.type
    is_plain = pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    if is_plain and not column.null_count:
        numbers = column.view(
            pa.int32() if pa.types.is_date32(kind) else pa.int64() if pa.types.is_timestamp(kind) else kind
        )
        whole: npt.NDArray[Any] = numbers.to_numpy()
        # Not the negative, which overflows for the least number.
        return ~whole if descending else whole
    if pa.types.is_floating(kind) and not column.null_count:
        floats: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        if not np.isnan(floats).any():
            return -floats if descending else floats
    order = "descending" if descending else "ascending"
    ranks: npt.NDArray[Any] = pc.rank(column, sort_keys=order, tiebreaker="dense").to_numpy()
    return ranks
