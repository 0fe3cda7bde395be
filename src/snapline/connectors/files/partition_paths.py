"""Directories that hold values of columns, as Hive and Spark name them: `country=se/year=2024`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The directory of null, and of empty text."""

PARTITION = re.compile(r"[^/=]+=[^/]+")

_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]")


def is_path_type(kind: pa.DataType) -> bool:
    """Whether values of this type are the same text here and in Spark."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_decimal(kind)
    )


def partitions(batch: pa.RecordBatch, columns: Sequence[str]) -> list[tuple[str, pa.RecordBatch]]:
    """The rows of a batch by directory, without the columns that the directory stands for."""
    kept = batch.select([name for name in batch.schema.names if name not in columns])
    if not columns or not batch.num_rows:
        return [("", kept)]
    numbers = np.zeros(batch.num_rows, dtype=np.int64)
    for name in columns:
        codes = batch.column(name).cast(pa.string()).dictionary_encode(null_encoding="encode")
        numbers = numbers * len(codes.dictionary) + codes.indices.to_numpy()
        numbers = np.unique(numbers, return_inverse=True)[1]  # so that many columns cannot overflow
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers)).tolist()
    texts = [_texts(batch.column(name).take(pa.array(order))) for name in columns]
    sorted_rows = kept.take(pa.array(order))
    made, start = [], 0
    for end in ends:
        path = "/".join(f"{escaped(name)}={values[start]}" for name, values in zip(columns, texts, strict=True))
        made.append((path, sorted_rows.slice(start, end - start)))
        start = end
    return made


def _texts(column: pa.Array) -> list[str]:
    return [escaped(value) if value else NO_VALUE for value in column.cast(pa.string()).to_pylist()]


def escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def values_in(path: str) -> Mapping[str, str | None]:
    """The columns that the directories of a path stand for."""
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        if PARTITION.fullmatch(part):
            name, _, value = part.partition("=")
            found[unquote(name)] = None if value == NO_VALUE else unquote(value)
    return found


def with_values(batch: pa.RecordBatch, values: Mapping[str, str | None], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a file with the columns of its directories; `schema` has all of them in their order."""
    arrays = []
    for field in schema:
        if field.name in values:
            text = pa.array([values[field.name]], pa.string()).cast(field.type)
            arrays.append(pa.repeat(text[0], batch.num_rows))
        else:
            arrays.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
