"""Values of subqueries that do not stream: Spark runs them, once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from snapline.errors import ConfigurationError
from snapline.sql.plans.trees import Plan


def scalar_value(plan: Plan) -> Any:
    """The one value of a subquery, as `pa.scalar` takes it; None if it has no row."""
    rows = plan.arguments["dataframe"]().limit(2).toArrow()
    if rows.num_rows > 1:
        raise ConfigurationError(f"a subquery that is used as a value gives several rows: {plan.text}")
    if not rows.num_rows:
        return None
    value = rows.column(0)[0].cast(plan.output[0].type)
    if pa.types.is_temporal(value.type) and not pa.types.is_interval(value.type):
        return (
            None if not value.is_valid else value.cast(pa.int64() if value.type.bit_width == 64 else pa.int32()).as_py()
        )
    return value.as_py()
