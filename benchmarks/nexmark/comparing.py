"""Checks that two tables hold the same rows, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Reduction: TypeAlias = Literal["all", "last", "sum"]

_RELATIVE_ERROR = 1e-9
"""For means, which are added up in another order."""
_SHOWN = 3


def reduced(rows: pa.Table, how: Reduction, key: Sequence[str]) -> pa.Table:
    """How rows form the answer: all of them, the last of each key, or per key the sums of the other columns."""
    if how == "all" or not rows.num_columns:
        return rows
    if how == "last":
        numbered = rows.append_column("row number", pa.array(np.arange(rows.num_rows)))
        last = numbered.group_by(list(key), use_threads=False).aggregate([("row number", "max")])
        return rows.take(last.column("row number_max"))
    values = [name for name in rows.column_names if name not in key and pa.types.is_integer(rows.field(name).type)]
    sums = rows.group_by(list(key), use_threads=False).aggregate([(name, "sum") for name in values])
    return sums.select([*key, *(f"{name}_sum" for name in values)]).rename_columns([*key, *values])


def difference(found: pa.Table, expected: pa.Table) -> str:
    """Returns the differences, with the first rows that differ; empty if the tables are equal.

    Fractions may differ by one part in a billion. Rows with an unexpected column are not equal.
    """
    if not found.num_columns and not expected.num_rows:
        return ""
    if sorted(found.column_names) != sorted(expected.column_names):
        return f"the columns are {', '.join(found.column_names)} instead of {', '.join(expected.column_names)}"
    schema = expected.schema
    fractions = [field.name for field in schema if pa.types.is_floating(field.type)]
    order = [name for name in schema.names if name not in fractions] + fractions
    found, expected = (_sorted(table.select(order).cast(_plain(table, order)), order) for table in (found, expected))
    count = "" if found.num_rows == expected.num_rows else f"{found.num_rows} rows instead of {expected.num_rows}; "
    if not count and all(_same(found.column(name), expected.column(name)) for name in order):
        return ""
    return count + _shown(found, expected)


def _plain(table: pa.Table, order: Sequence[str]) -> pa.Schema:
    """Returns the same columns with the types used for the comparison."""
    return pa.schema([(name, _plain_type(table.field(name).type)) for name in order])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms")
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.float64() if pa.types.is_floating(kind) else kind


def _sorted(table: pa.Table, order: Sequence[str]) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in order])


def _same(found: pa.ChunkedArray, expected: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(found.type):
        return bool(found.equals(expected))
    left, right = found.to_numpy(), expected.to_numpy()
    return bool(np.allclose(left, right, rtol=_RELATIVE_ERROR, atol=0, equal_nan=True))


def _shown(found: pa.Table, expected: pa.Table) -> str:
    """Returns the rows that only one side has; floats are rounded so that they can be compared."""
    left, right = _counted(found), _counted(expected)
    too_much, too_little = list((left - right).elements()), list((right - left).elements())
    names = f"({', '.join(found.column_names)})"
    return (
        f"{names}: {len(too_much)} rows nobody expects, such as {too_much[:_SHOWN]}; "
        f"{len(too_little)} rows missing, such as {too_little[:_SHOWN]}"
    )


def _counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [
        np.round(column.to_numpy(), 3).tolist()
        if pa.types.is_floating(column.type)
        else (pc.strftime(column) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in table.columns
    ]
    return Counter(zip(*columns, strict=True))
