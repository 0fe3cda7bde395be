from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cloudpickle
import pandas as pd
import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.python_functions import PythonFunction
from snapline.sql.plans.trees import Attribute, Expression, Plan

WINDOW = Attribute(9, "window", kit.WINDOW, False, {"spark.timeWindow": True, **kit.EVENT_TIME})
TOTALS = (Attribute(20, "user", pa.string()), Attribute(21, "total", pa.int64()))
ROWS = [
    (1, kit.second(1), "ann", 5),
    (2, kit.second(2), "ann", 6),
    (3, kit.second(12), "ann", 7),
    (4, kit.second(3), None, 1),
]


def function(call: Any, kind: int, arguments: Sequence[Expression], result: pa.DataType, name: str) -> Expression:
    packed = PythonFunction(cloudpickle.dumps((call, None)), "3.11", ())
    given = {"func": packed, "evalType": kind, "name": name}
    return Expression("PythonUDAF" if kind == 202 else "PythonUDF", result, tuple(arguments), given, True, name)


def windows() -> Plan:
    """Rows with their window, as the analyser has them below a function of groups: keys first, then all columns."""
    window = kit.alias(WINDOW, kit.time_window(reference(kit.AT), 10))
    return kit.project(kit.watermark(kit.relation()), window, *kit.EVENTS)


def grouped(call: Any, keys: Sequence[Attribute], below: Plan | None = None, **arguments: Any) -> Plan:
    data = [reference(each) for each in kit.EVENTS]
    expressions = {
        "functionExpr": (function(call, arguments.pop("evalType", 201), data, pa.struct([]), "totals"),),
        "groupingAttributes": tuple(map(reference, keys)),
    }
    kind = "FlatMapGroupsInPandasWithState" if arguments else "FlatMapGroupsInPandas"
    return Plan(kind, TOTALS, (below or windows(),), expressions, arguments, True, "groups")


def totals(frame: pd.DataFrame) -> pd.DataFrame:
    assert list(frame.columns) == [each.name for each in kit.EVENTS]
    return pd.DataFrame({"user": [frame["user"].iloc[0]], "total": [frame["price"].sum()]})


def with_state(key: Any, frames: Any, state: Any) -> Any:
    total = (state.get[0] if state.exists else 0) + sum(frame["price"].sum() for frame in frames)
    state.update((int(total),))
    yield pd.DataFrame({"user": [key[0]], "total": [total]})


def stateful(mode: str = "Append", timeout: str = "NoTimeout", below: Plan | None = None) -> Plan:
    kind = pa.struct([("total", pa.int64())])
    arguments = {"stateType": kind, "outputMode": mode, "timeout": timeout, "evalType": 208}
    return grouped(with_state, [kit.USER], below or kit.relation(), **arguments)


def test_a_function_of_the_groups_of_a_window() -> None:
    found = kit.run(grouped(totals, [WINDOW, kit.USER]), ROWS, mode="append")
    assert found == {("ann", 11): 1, ("ann", 7): 1, (None, 1): 1}


def test_groups_that_never_end_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="never end"):
        kit.run(grouped(totals, [kit.USER]), ROWS, mode="append")


def test_a_function_with_state() -> None:
    assert sum(kit.run(stateful(), ROWS, mode="append").values()) >= 2


@pytest.mark.parametrize(("mode", "timeout"), [("Update", "NoTimeout"), ("Append", "EventTimeTimeout")])
def test_what_spark_refuses_of_functions_with_state(mode: str, timeout: str) -> None:
    with pytest.raises(ConfigurationError, match="What to do"):
        kit.run(stateful(mode, timeout), ROWS, mode="append")


def test_aggregate_functions_of_groups() -> None:
    def longest(values: pd.Series) -> int:
        return int(values.max())

    udaf = function(longest, 202, [reference(kit.PRICE)], pa.int64(), "longest")
    value = kit.call("Add", pa.int64(), kit.aggregated(udaf), kit.literal(1), evalMode="ANSI")
    columns = [reference(WINDOW), reference(kit.USER), kit.alias(TOTALS[1], value)]
    plan = kit.aggregate(windows(), [reference(WINDOW), reference(kit.USER)], columns)
    found = kit.run(plan, ROWS, mode="append")
    assert sorted((str(row[1]), row[2]) for row in found) == [("None", 2), ("ann", 7), ("ann", 8)]
    mixed = kit.aggregate(
        windows(), [reference(WINDOW)], [*columns[2:], kit.alias(TOTALS[1], kit.aggregated(kit.count()))]
    )
    with pytest.raises(ConfigurationError, match="written in Python"):
        kit.run(mixed, ROWS, mode="append")
