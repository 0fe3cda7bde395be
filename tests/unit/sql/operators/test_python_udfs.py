from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import cloudpickle
import pandas as pd
import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import UserCodeError
from snapline.sql.expressions.compiler import Program
from snapline.sql.operators.python_udfs import MapFunction
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.python_functions import PythonFunction
from snapline.sql.plans.trees import Attribute, Expression
from snapline.testing import OperatorHarness

TIME = pa.timestamp("us", "UTC")
AT = Attribute(1, "at", TIME)
NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)


def packed(function: Any) -> PythonFunction:
    return PythonFunction(cloudpickle.dumps((function, None)), "3.11", ())


def called(function: Any, kind: int, result: pa.DataType, values: list[Any]) -> list[Any]:
    arguments = {"func": packed(function), "evalType": kind, "name": "f", "timeZoneId": "Europe/Berlin"}
    udf = Expression("PythonUDF", result, (reference(AT),), arguments, True, "f(at)")
    batch = pa.RecordBatch.from_arrays([pa.array(values, TIME)], names=["at"])
    (array,) = Program([udf], (AT,)).arrays(batch)
    found: list[Any] = array.to_pylist()
    return found


def test_functions_of_pandas_see_local_times_of_the_session_and_may_return_them() -> None:
    def hours(at: pd.Series) -> pd.Series:
        return at.dt.hour.astype("int64")

    def later(given: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for at in given:
            assert at.dt.tz is None
            yield at + pd.Timedelta(hours=1)

    assert called(hours, 200, pa.int64(), [NOON]) == [14]
    assert called(later, 204, TIME, [NOON, None]) == [NOON.replace(hour=13), None]


def test_a_function_must_give_as_many_values_as_rows() -> None:
    with pytest.raises(UserCodeError, match="gave 0 values for 1 rows"):
        called(lambda at: at[:0], 200, TIME, [NOON])


def test_a_function_of_frames_sees_local_times_too() -> None:
    def days(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"hour": frame["at"].dt.hour.astype("int64"), "at": frame["at"]})

    schema = pa.schema([("hour", pa.int64()), ("at", TIME)])
    operator = MapFunction(packed(days), ["at"], schema, pandas=True, time_zone="Europe/Berlin")
    given = pa.schema([("at", TIME)])
    stream = sl.Job("rows").source(sl.sources.Iterator([], schema=given), uid="rows").apply(operator, schema=schema)
    with OperatorHarness.of(stream) as harness:
        harness.process([{"at": NOON}])
        assert harness.rows() == [{"hour": 14, "at": NOON}]
