from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from snapline.sql.expressions.file_lines import FileLines
from snapline.sql.expressions.registry import SparkError, UnsupportedError

NUMBERS = pa.schema([("a", pa.int32()), ("b", pa.string())])
TIME = pa.schema([("t", pa.timestamp("us", "UTC"))])
CORRUPT = pa.field("_corrupt_record", pa.string())


def rows(format: str, lines: list[str], schema: pa.Schema = NUMBERS, **options: str) -> list[Any]:
    parse = pickle.loads(pickle.dumps(FileLines(format, options, "America/New_York")))
    parse.check(schema)
    columns = [column.to_pylist() for column in parse(pa.array(lines, pa.string()), schema).columns]
    return list(zip(*columns, strict=True))


def test_what_cannot_be_read_is_null() -> None:
    lines = ['{"a": 1, "b": "x"}', '{"a": "one", "b": 2}', "{bad", "", '{"b": null}']
    assert rows("json", lines) == [(1, "x"), (None, "2"), (None, None), (None, None)]
    assert rows("csv", ["1,x", "one,2", "3", " ", "4,y,z"]) == [(1, "x"), (None, "2"), (3, None), (4, "y")]


@pytest.mark.parametrize(("format", "good", "bad"), [("json", '{"a": 1, "b": "x"}', "{bad"), ("csv", "1,x", "one,x")])
def test_modes(format: str, good: str, bad: str) -> None:
    assert rows(format, [good, bad], mode="dropMalformed") == [(1, "x")]
    with pytest.raises(SparkError, match="MALFORMED_RECORD"):
        rows(format, [good, bad], mode="FAILFAST")
    kept = rows(format, [good, bad], NUMBERS.append(CORRUPT))
    assert [row[2] for row in kept] == [None, bad]


def test_times_without_a_zone_are_those_of_the_session() -> None:
    expected = [(datetime(2024, 1, 1, 15, tzinfo=UTC),)]
    assert rows("json", ['{"t": "2024-01-01 10:00:00"}'], TIME) == expected
    assert rows("csv", ["2024-01-01 10:00:00"], TIME) == expected
    assert rows("json", ['{"t": "01.01.2024 10"}'], TIME, timestampformat="dd.MM.yyyy HH") == expected


def test_maps_and_decimals() -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("d", pa.decimal128(6, 2))])
    assert rows("json", ['{"m": {"k": 1}, "d": 1.005}'], schema) == [([("k", 1)], Decimal("1.01"))]


def test_objects_of_an_array_are_rows() -> None:
    found = rows("json", ['[{"a": 1}, {"a": 2}]', '{"a": 3}', "[bad"])
    assert sorted(row[0] or 0 for row in found) == [0, 1, 2, 3]


def test_separators_and_types_that_do_not_run() -> None:
    assert rows("csv", ["1|x"], sep="|") == [(1, "x")]
    with pytest.raises(UnsupportedError, match="from_csv"):
        FileLines("csv", {}, "UTC").check(pa.schema([("a", pa.list_(pa.int64()))]))
