"""What a cast does with values that the target cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.registry import SparkError
from snapline.sql.expressions.type_names import type_name
from snapline.sql.expressions.values import Bools, each, valid
from snapline.sql.expressions.zone_offsets import Zone, zone

Converter: TypeAlias = Callable[[pa.Array], pa.Array]
"""Casts an array. Raises `SparkError`."""


@dataclass(frozen=True, slots=True)
class CastRules:
    """`mode` is `ANSI`, `LEGACY` or `TRY`; `zone_name` the time zone of the session."""

    mode: str
    zone_name: str | None

    @property
    def legacy(self) -> bool:
        """Whether values are bent to fit, as before ANSI mode."""
        return self.mode == "LEGACY"

    @property
    def zone(self) -> Zone:
        """The time zone of the session."""
        return zone(self.zone_name or "UTC")

    def without(self, bad: Bools, there: Bools, condition: str, target: pa.DataType) -> Bools:
        """The rows that are `there` and not `bad`. Raises `SparkError` in ANSI mode if there are bad ones."""
        bad = bad & there
        if not bad.any():
            return there
        if self.mode == "ANSI":
            row = int(np.argmax(bad))
            name = type_name(target).upper()
            raise SparkError(condition, f"The value in row {row} of the batch cannot be cast to {name}.")
        return there & ~bad

    def parsed(self, array: pa.Array, parse: Callable[[str], Any], target: pa.DataType) -> pa.Array:
        """What `parse` makes of texts; where that is None, the text is malformed."""
        result = each(array, parse, target)
        if result.null_count > array.null_count:
            self.without(~valid(result), valid(array), "CAST_INVALID_INPUT", target)
        return result
