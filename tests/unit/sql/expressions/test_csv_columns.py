from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.sql.expressions.csv_columns import read_lines
from snapline.sql.expressions.json_times import TimeTexts

TYPE = pa.struct([("n", pa.int32()), ("x", pa.float64()), ("b", pa.bool_()), ("d", pa.date32()), ("s", pa.string())])
TIMES = TimeTexts("UTC", {})


def test_plain_values_are_read_and_empty_ones_are_null() -> None:
    found = read_lines(pa.array(["1|2.5|true|2024-01-31| a", "||||"]), TYPE, "|", TIMES)
    assert found is not None
    assert [tuple(map(str, row.values())) for row in found.to_pylist()] == [
        ("1", "2.5", "True", "2024-01-31", " a"),
        ("None",) * 5,
    ]


@pytest.mark.parametrize(
    "line",
    [
        "1,2.5,true,2024-01-31",
        '1,2.5,true,2024-01-31,"a"',
        " 1,2.5,true,2024-01-31,a",
        "9999999999,2.5,true,2024-01-31,a",
        "1,0x1,true,2024-01-31,a",
        "1,2.5,TRUE,2024-01-31,a",
        "1,2.5,true,2024-02-31,a",
    ],
)
def test_whatever_is_not_beyond_doubt_is_left_to_others(line: str) -> None:
    assert read_lines(pa.array(["1,2.5,true,2024-01-31,a", line]), TYPE, ",", TIMES) is None


def test_types_that_need_more() -> None:
    assert read_lines(pa.array(["1.5"]), pa.struct([("d", pa.decimal128(5, 2))]), ",", TIMES) is None
