from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd
import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.sql.operators.udf_frames import Frames, FrameSettings

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("n", pa.int32()), ("at", TIME)])


def frames(**settings: object) -> Frames:
    return Frames(FrameSettings(**settings))  # type: ignore[arg-type]


def test_columns_have_the_types_and_the_local_times_that_spark_gives_them() -> None:
    moment = datetime(2024, 7, 1, 12, tzinfo=UTC)
    batch = pa.RecordBatch.from_pylist([{"n": 1, "at": moment}], schema=SCHEMA)
    frame = frames(time_zone="Europe/Berlin").frame(batch)
    assert frame["n"].dtype == "int32"
    assert frame["at"][0] == pd.Timestamp("2024-07-01 14:00:00")
    back = frames(time_zone="Europe/Berlin").batch(frame, SCHEMA, "f")
    assert back.equals(batch)


def test_times_inside_other_values_are_local_too() -> None:
    moment = datetime(2024, 7, 1, 12, tzinfo=UTC)
    kind = pa.struct(
        [pa.field("at", TIME), pa.field("all", pa.list_(TIME)), pa.field("by", pa.map_(pa.string(), TIME))]
    )
    batch = pa.RecordBatch.from_pylist(
        [{"s": {"at": moment, "all": [moment], "by": [("a", moment)]}}, {"s": None}], schema=pa.schema([("s", kind)])
    )
    first, nothing = frames(time_zone="Europe/Berlin").series(batch)[0]
    local = datetime(2024, 7, 1, 14)
    assert (first["at"], list(first["all"]), first["by"]) == (local, [local], {"a": local})
    assert nothing is None


def test_many_rows_come_in_several_frames() -> None:
    batch = pa.RecordBatch.from_pydict({"n": list(range(5))})
    assert [len(frame) for frame in frames(rows=2).frames(batch)] == [2, 2, 1]


def test_columns_are_found_by_name_or_by_position() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert frames().batch(pd.DataFrame({"b": ["x"], "a": [1]}), schema, "f").to_pylist() == [{"a": 1, "b": "x"}]
    assert frames().batch(pd.DataFrame([[1, "x"]]), schema, "f").to_pylist() == [{"a": 1, "b": "x"}]
    assert frames().batch(pd.DataFrame(), schema, "f").num_rows == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("text", "pandas.DataFrame"),
        (pd.DataFrame({"a": [1]}), "without the column 'b'"),
        (pd.DataFrame({"a": [1], "b": ["x"], "c": [2]}), "with the column 'c'"),
        (pd.DataFrame([[1]]), "with 1 columns"),
        (pd.DataFrame({"a": ["no number"], "b": ["x"]}), "do not fit"),
    ],
)
def test_what_does_not_fit_is_refused(given: object, says: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    with pytest.raises(UserCodeError, match=says):
        frames().batch(given, schema, "f")
