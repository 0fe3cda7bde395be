from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cloudpickle
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests import sql_kit as kit

import snapline as sl
from snapline.errors import UserCodeError
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.sql.operators.python_groups import (
    AggregateFunction,
    CompleteGroups,
    FunctionOfGroup,
    FunctionsOfGroup,
    GroupCall,
)
from snapline.sql.operators.udf_frames import FrameSettings
from snapline.sql.plans.python_functions import PythonFunction
from snapline.testing import OperatorHarness

SCHEMA = pa.schema([("window", kit.WINDOW), ("user", pa.string()), ("price", pa.int64())])
GROUPS = ("window", "user")
RESULT = pa.schema([("user", pa.string()), ("total", pa.int64())])
LAYOUT = KeyLayout(SCHEMA, GROUPS)


def packed(function: Any) -> PythonFunction:
    return PythonFunction(cloudpickle.dumps((function, None)), "3.11", ())


def of_group(function: Any, kind: int = 201) -> GroupCall:
    return FunctionOfGroup(packed(function), "total", kind, SCHEMA.names, 2, RESULT, FrameSettings())


def harness(call: GroupCall, result: pa.Schema = RESULT) -> OperatorHarness:
    rows = sl.Job("groups").source(sl.sources.Iterator([], schema=SCHEMA), uid="rows")
    schema = LAYOUT.schema(SCHEMA)
    keyed = rows.apply(AddKeys(LAYOUT), schema=schema).key_by(*LAYOUT.key_columns)
    return OperatorHarness.of(
        keyed.apply(CompleteGroups(schema, LAYOUT.key_columns, "window", call), "groups", schema=result)
    )


def batch(*rows: tuple[int | None, str | None, int | None]) -> pa.RecordBatch:
    given = [
        {
            "window": None if start is None else {"start": kit.second(start), "end": kit.second(start + 10)},
            "user": user,
            "price": price,
        }
        for start, user, price in rows
    ]
    return LAYOUT.with_keys(pa.RecordBatch.from_pylist(given, schema=SCHEMA))


def ms(second: float) -> int:
    return int(kit.second(second).timestamp() * 1000)


def total(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
    assert list(frame.columns) == ["price"]
    return pd.DataFrame({"user": [key[1]], "total": [frame["price"].sum()]})


def shown(made: OperatorHarness) -> list[tuple[Any, ...]]:
    return sorted((row["user"] or "", row["total"]) for row in made.rows())


def test_a_function_is_called_once_with_all_rows_of_a_group_when_it_is_over() -> None:
    with harness(of_group(total)) as made:
        made.process(batch((0, "ann", 1), (0, None, 5), (10, "ann", 7)))
        made.process(batch((0, "ann", 2), (None, "ann", 9)))
        made.watermark(ms(10) - 2)
        assert shown(made) == []
        made.restart()
        made.watermark(ms(10) - 1)
        assert shown(made) == [("", 5), ("ann", 3)]
        made.process(batch((0, "ann", 4)))
        assert made.operator.late_rows == 1
        made.end()
        assert shown(made) == [("ann", 7)]


def test_rows_may_be_frames_iterators_of_frames_tables_or_batches() -> None:
    def of_frames(given: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in given:
            yield pd.DataFrame({"user": ["x"], "total": [frame["price"].sum()]})

    def of_table(table: pa.Table) -> pa.Table:
        return pa.table({"total": [pc.sum(table["price"]).as_py()], "user": ["x"]})

    def of_batches(key: tuple[Any, ...], given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert key[1].as_py() == "ann"
        for each in given:
            yield pa.RecordBatch.from_pydict({"user": ["x"], "total": [pc.sum(each["price"]).as_py()]})

    for function, kind in ((of_frames, 216), (of_table, 209), (of_batches, 215)):
        with harness(of_group(function, kind)) as made:
            made.process(batch((0, "ann", 1), (0, "ann", 2)))
            made.end()
            assert shown(made) == [("x", 3)]


def test_an_error_names_the_function_and_the_group() -> None:
    def fails(frame: pd.DataFrame) -> pd.DataFrame:
        raise ValueError("no such luck")

    with harness(of_group(fails)) as made:
        made.process(batch((0, "ann", 1)))
        with pytest.raises(UserCodeError, match=r"total raised .*no such luck.*ann"):
            made.end()


def test_aggregate_functions_give_a_value_of_each_group() -> None:
    def mean(values: pd.Series) -> float:
        return float(values.mean())

    def weighted(values: Any, weight: Any) -> Any:
        return pc.sum(pc.multiply(values, weight))

    functions = [
        AggregateFunction(packed(mean), "mean", 202, ((None, 2),), pa.float64()),
        AggregateFunction(packed(weighted), "weighted", 252, ((None, 2), ("weight", 2)), pa.int64()),
    ]
    fields = [SCHEMA.field("window"), SCHEMA.field("user"), pa.field("mean", pa.float64()), pa.field("w", pa.int64())]
    result = pa.schema(fields)
    with harness(FunctionsOfGroup(functions, 2, result, FrameSettings()), result) as made:
        made.process(batch((0, "ann", 1), (0, "ann", 2), (0, "bob", None)))
        made.end()
        rows = sorted((row["user"], row["mean"], row["w"]) for row in made.rows())
    assert rows[0] == ("ann", 1.5, 5)
    assert rows[1][0] == "bob"
    assert rows[1][2] is None
