"""Values of all types, and aggregates without groups over a few of them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from math import inf
from typing import Any

import pyarrow as pa
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.retracting_aggregate import RetractingAggregate

UTC = datetime.UTC

ORDERED: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 0, 127],
    pa.int64(): [-(2**63), -1, 2**63 - 1],
    pa.uint32(): [0, 1, 2**32 - 1],
    pa.bool_(): [False, True],
    pa.float64(): [-inf, -1.5, 0.0, 5e-324, inf],
    pa.float32(): [-inf, -1.5, 0.25, inf],
    pa.date32(): [datetime.date(1969, 1, 1), datetime.date(2020, 2, 2)],
    pa.timestamp("us", "UTC"): [datetime.datetime(1900, 1, 1, tzinfo=UTC), datetime.datetime(2020, 2, 2, tzinfo=UTC)],
    pa.duration("us"): [datetime.timedelta(-1), datetime.timedelta(1)],
    pa.decimal128(18, 2): [Decimal("-9999999999999999.99"), Decimal("0.00"), Decimal("0.01")],
    pa.decimal128(38, 2): [Decimal("-999999999999999999999999.99"), Decimal("0.01")],
    pa.string(): ["", "a", "ab", "é"],
    pa.binary(): [b"", b"\x00", b"\xff"],
}
"""Values of each type that has an order, ascending."""


def results(aggregate: Aggregate, kind: pa.DataType, batches: Sequence[Sequence[Any]]) -> list[Any]:
    """The result of an aggregate of a column `v` after each batch.

    Batches hold values that are added; those inside a list of one element are taken back.
    """
    is_changing = any(isinstance(value, list) for batch in batches for value in batch)
    plain = pa.schema([("v", kind)])
    schema = with_change(plain) if is_changing else plain
    operator = RetractingAggregate(schema, [], {"r": aggregate}, before=True, is_global=True)
    found = []
    with running(operator, [KeyLayout(schema, [])]) as one:
        for batch in batches:
            rows: list[tuple[Any, ...]]
            if is_changing:
                rows = [(value[0], 3) if isinstance(value, list) else (value, 0) for value in batch]
            else:
                rows = [(value,) for value in batch]
            one.process(batch_of(schema, rows))
            ((result,),) = one.result.elements()
            found.append(result)
    return found
