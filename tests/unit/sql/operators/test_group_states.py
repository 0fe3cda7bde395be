from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import cloudpickle
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from tests import sql_kit as kit

import snapline as sl
from snapline.errors import UserCodeError
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.sql.operators.group_states import StatefulGroups
from snapline.sql.operators.udf_frames import FrameSettings
from snapline.sql.plans.python_functions import PythonFunction
from snapline.testing import OperatorHarness

SCHEMA = pa.schema([("user", pa.string()), ("at", kit.TIME), ("price", pa.int32())])
RESULT = pa.schema([("user", pa.string()), ("n", pa.int64()), ("timed_out", pa.bool_())])
STATE = pa.struct([("n", pa.int64()), ("last", kit.TIME)])
LAYOUT = KeyLayout(SCHEMA, ["user"])


def harness(function: Any, timeout: str = GroupStateTimeout.NoTimeout) -> OperatorHarness:
    rows = sl.Job("groups").source(sl.sources.Iterator([], schema=SCHEMA), uid="rows")
    schema = LAYOUT.schema(SCHEMA)
    keyed = rows.apply(AddKeys(LAYOUT), schema=schema).key_by(*LAYOUT.key_columns)
    operator = StatefulGroups(
        PythonFunction(cloudpickle.dumps((function, None)), "3.11", ()),
        "counted",
        schema,
        groups=["user"],
        data=["at", "price"],
        names=["at", "price"],
        state=STATE,
        result=RESULT,
        timeout=timeout,
        time="at",
        has_watermark=True,
        settings=FrameSettings(),
    )
    return OperatorHarness.of(keyed.apply(operator, "groups", schema=RESULT))


def batch(*rows: tuple[str | None, float]) -> pa.RecordBatch:
    given = [{"user": user, "at": kit.second(at), "price": 1} for user, at in rows]
    return LAYOUT.with_keys(pa.RecordBatch.from_pylist(given, schema=SCHEMA))


def ms(second: float) -> int:
    return int(kit.second(second).timestamp() * 1000)


def shown(made: OperatorHarness) -> list[tuple[Any, ...]]:
    return sorted((row["user"] or "", row["n"], row["timed_out"]) for row in made.rows())


def result(user: Any, n: int, timed_out: bool) -> pd.DataFrame:
    return pd.DataFrame({"user": [user], "n": [n], "timed_out": [timed_out]})


def counted(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    before = state.get[0] if state.exists else 0
    assert before == (0 if state.getOption is None else state.getOption[0])
    n = before + sum(len(frame) for frame in frames)
    state.update((n, datetime(2024, 1, 1)))
    yield result(key[0], n, state.hasTimedOut)


def with_event_timeout(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Any:
    n = state.get[0] if state.exists else 0
    if state.hasTimedOut:
        (empty,) = frames
        assert list(empty.columns) == ["at", "price"]
        assert empty.empty
        state.remove()
        return [result(key[0], n, True)]
    newest = max(frame["at"].max() for frame in frames)
    state.update((n + 1, newest))
    state.setTimeoutTimestamp(int(newest.timestamp() * 1000) + 5000)
    return []


def test_state_is_that_of_the_group_and_lives_on() -> None:
    with harness(counted) as made:
        made.process(batch(("ann", 0), (None, 0), ("ann", 1)))
        assert shown(made) == [("", 1, False), ("ann", 2, False)]
        made.restart()
        made.process(batch(("ann", 2), ("bob", 2)))
        assert shown(made) == [("ann", 3, False), ("bob", 1, False)]


def test_a_timeout_in_event_time_comes_when_the_watermark_has_passed_it() -> None:
    with harness(with_event_timeout, GroupStateTimeout.EventTimeTimeout) as made:
        made.process(batch(("ann", 1), (None, 2)))
        made.watermark(ms(6) - 1)  # Spark's watermark is one more; the timeout must be before it
        assert shown(made) == []
        made.restart()
        made.watermark(ms(6))
        assert shown(made) == [("ann", 1, True)]
        made.process(batch((None, 6), (None, 7)))  # as late as the watermark, and later
        assert made.operator.late_rows == 1
        made.watermark(ms(11))
        assert shown(made) == []
        made.end()
        assert shown(made) == [("", 2, True)]


def test_a_timeout_in_processing_time_ends_with_each_call() -> None:
    def function(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Any:
        rows = sum(len(frame) for frame in frames)
        if rows == 1:
            state.setTimeoutDuration(1000)
        yield result(key[0], rows, state.hasTimedOut)

    with harness(function, GroupStateTimeout.ProcessingTimeTimeout) as made:
        made.process(batch(("ann", 0), ("bob", 0)))
        made.advance("900ms")
        made.process(batch(("bob", 0), ("bob", 0)))
        made.restart()
        assert shown(made) == [("ann", 1, False), ("bob", 1, False), ("bob", 2, False)]
        made.advance("10s")
        assert shown(made) == [("ann", 0, True)]
        made.advance("10s")
        assert shown(made) == []


def test_times_are_those_of_spark() -> None:
    def function(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Any:
        yield result(key[0], state.getCurrentWatermarkMs(), state.getCurrentProcessingTimeMs() == 123)

    with harness(function, GroupStateTimeout.EventTimeTimeout) as made:
        made.now_ms = 123
        made.process(batch(("ann", 1)))
        made.watermark(ms(5))
        made.process(batch(("ann", 9)))
        assert shown(made) == [("ann", 0, True), ("ann", ms(5) + 1, True)]


@pytest.mark.parametrize(
    ("given", "says"),
    [(None, "iterator"), (pd.DataFrame(), "iterator"), ([3], "pandas.DataFrame"), ([pd.DataFrame({"x": [1]})], "user")],
)
def test_what_is_not_frames_is_refused(given: Any, says: str) -> None:
    with harness(lambda key, frames, state: given) as made, pytest.raises(UserCodeError, match=says):
        made.process(batch(("ann", 0)))


def test_an_error_names_the_function_and_the_group() -> None:
    def fails(key: Any, frames: Any, state: GroupState) -> Any:
        state.setTimeoutDuration(1)

    with harness(fails) as made, pytest.raises(UserCodeError, match=r"counted raised .*'ann'"):
        made.process(batch(("ann", 0)))
