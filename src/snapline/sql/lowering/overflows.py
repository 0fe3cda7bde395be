"""What happens to sums that do not fit their type, by Spark's eval mode."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.accumulator import Overflow
from snapline.sql.expressions.registry import SparkError
from snapline.sql.plans.trees import Expression
from snapline.state.arrays import Bools


def overflow_rule(function: Expression) -> Overflow:
    """The rule for an aggregate function."""
    mode = function.arguments.get("evalMode", "ANSI")
    return {"LEGACY": wrapped, "TRY": null}.get(mode, error)


def error(results: pa.Array, overflows: Bools) -> pa.Array:
    """ANSI mode fails."""
    name = "NUMERIC_VALUE_OUT_OF_RANGE" if pa.types.is_decimal(results.type) else "ARITHMETIC_OVERFLOW"
    raise SparkError(name, f"a sum does not fit into {results.type}; cast the column to a wider type, or use try_sum")


def wrapped(results: pa.Array, overflows: Bools) -> pa.Array:
    """Whole numbers wrap around, decimals are null: as they come."""
    return results


def null(results: pa.Array, overflows: Bools) -> pa.Array:
    """`try_sum` and `try_avg` give null."""
    return pc.if_else(pa.array(overflows), pa.scalar(None, results.type), results)
