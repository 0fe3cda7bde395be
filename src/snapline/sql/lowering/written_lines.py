"""Rows as the lines of the files that Spark writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from snapline.api.stream import Stream
from snapline.sql.expressions.csv_functions import quoted_value
from snapline.sql.lowering.lowered_stream import Lowered, projected, references
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Expression

_WRITERS: Final[Mapping[str, str]] = {"json": "StructsToJson", "csv": "StructsToCsv"}
_OPTIONS: Final[Mapping[str, str]] = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark cuts times to milliseconds, and reads them with more."""
_LINE = Attribute(-1, "value", pa.string())


def written_lines(
    stream: Stream, attributes: Sequence[Attribute], format: str, partitions: Sequence[str], time_zone: str
) -> Stream:
    """The rows of a query, with these columns, as lines of "json" or "csv"; the columns `partitions` stay beside them.

    Raises `ConfigurationError` for columns that the format cannot hold.
    """
    columns = [each for each in attributes if each.name not in partitions]
    kept = [each for each in attributes if each.name in partitions]
    fields = [pa.field(each.name, each.type, each.nullable) for each in columns]
    values = [part for each in columns for part in (_name(each.name), reference(each))]
    text = ", ".join(each.name for each in columns)
    row = Expression("CreateNamedStruct", pa.struct(fields), tuple(values), {}, False, f"struct({text})")
    arguments = {"options": _OPTIONS, "timeZoneId": time_zone}
    line = Expression(_WRITERS[format], pa.string(), (row,), arguments, True, f"to_{format}({row.text})")
    made = Lowered(stream, tuple(attributes))
    return projected(made, [*references(kept), (_LINE, line)], format).stream


def csv_header(names: Sequence[str]) -> str:
    """The first line of a CSV file, with the names of its columns."""
    return ",".join(quoted_value(name, ",") for name in names)


def _name(name: str) -> Expression:
    return Expression("Literal", pa.string(), (), {"value": name}, False, name)
