"""Stateful processors return the same on Snapline as in PySpark's `TwsTester`, with and without restores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester
from tests.unit.spark.stateful import processors as p
from tests.unit.spark.stateful.processor_kit import COUNTS, PAIRS, WORDS, Case, Subject, events

CASES = {
    "count": Case(
        p.RunningCount, COUNTS, [events("ann", "bob", "ann"), events("bob"), events("eve", "ann", "ann", "bob")]
    ),
    "clear": Case(p.ClearingCount, COUNTS, [events("a", "b", "a"), events("a", "b"), events("a", "b", "b", "b")]),
    "two-columns": Case(
        p.MinAndMax, PAIRS, [events("a::5", "b::null", "a::3"), events("b::7", "a::null"), events("b::1", "a::9")]
    ),
    "top-n": Case(
        p.TopTwo, PAIRS, [events("a::5", "a::1", "b::2"), events("a::3", "c::null"), events("a::9", "b::1", "b::2")]
    ),
    "list": Case(
        p.Basket,
        WORDS,
        [
            events("a:pear:1", "b:fig:2", "a:nut:3"),
            events("b:pay:0", "a:plum:1"),
            events("b:fig:1", "a:kiwi:1", "a:pay:0"),
        ],
    ),
    "map": Case(
        p.WordCount,
        WORDS,
        [events("a:x", "a:y", "a:x", "b:z"), events("a:-x", "b:-nothing", "a:w"), events("b:-z", "a:x", "b:q")],
    ),
    "map-of-two": Case(
        p.Distinct,
        WORDS,
        [events("a:x:1", "a:x:1", "a:x:2", "b:x:1"), events("a:x:2", "b:y:1", "a:clear:0", "a:x:2"), events("a:x:2")],
    ),
    "session": Case(
        p.Session,
        PAIRS,
        [
            events("a", "b", "a"),
            4_000,
            events("a"),
            10_000,
            events("b"),
            13_999,
            14_000,
            20_000,
            events("a", "b"),
            90_000,
        ],
        "processing_time",
    ),
    "downtime": Case(
        p.Downtime,
        PAIRS,
        [
            events("a@1000", "b@2000"),
            2_000,
            events("a@9000", "b@2500"),
            12_499,
            12_500,
            events("b@30000", "c@12600"),
            19_500,
            35_000,
            61_000,
        ],
        "event_time",
    ),
    "late": Case(
        p.Downtime,
        PAIRS,
        [events("a@1000", "b@5000"), 3_000, events("a@3000", "a@3001", "b@2000", "b@4000"), 13_001, 20_000],
        "event_time",
    ),
    "alarm": Case(
        p.Alarm,
        WORDS,
        [events("a::10", "a::11", "b::10", "a::30"), events("a::12"), 5, events("b::10"), 15, 16, 40, 60],
        "processing_time",
    ),
    "no-time": Case(p.Clock, PAIRS, [events("a", "b"), events("a")]),
    "processing-time": Case(p.Clock, PAIRS, [events("a", "b"), 17, events("a"), 90, events("b")], "processing_time"),
    "partly-read": Case(p.FirstOnly, WORDS, [events("a:x:1", "b:y:2", "a:z:3"), events("b:q:1", "c:w:4")]),
    "nested": Case(p.Nested, WORDS, [events("a:x:1", "b:y:2", "a:z:3"), events("a:x:4", "b:y:5"), events("a:q:6")]),
    "delete": Case(p.WithoutOld, COUNTS, [events("a", "b", "a"), events("a")]),
    "initial": Case(
        p.RunningCount, COUNTS, [events("a", "b"), events("a", "c"), events("d")], initial={"a": [10, 5], "d": [7]}
    ),
    "pandas": Case(p.PandasCount, PAIRS, [events("a::1", "b::2", "a::3"), events("b::4", "c::5")], format="pandas"),
    "pandas-initial": Case(
        p.PandasCount, PAIRS, [events("a::1"), events("b::4")], format="pandas", initial={"a": [3, 4], "b": [1]}
    ),
    "pandas-session": Case(
        p.PandasSession,
        PAIRS,
        [events("a@1000", "b@2000", "a@3000"), 4_000, events("a@4500", "b@3000"), 12_500, events("b@20000"), 40_000],
        "event_time",
        "pandas",
    ),
}


def told_by_spark(case: Case) -> Iterator[list[dict[str, Any]]]:
    """The output of `TwsTester` for each step."""
    import pandas

    is_pandas = case.format == "pandas"
    rows = [(key, Row(user=key, n=n)) for key, values in case.initial.items() for n in values]
    frames = [(key, pandas.DataFrame({"user": key, "n": values})) for key, values in case.initial.items()]
    tester = TwsTester(
        case.processor(),
        initialStateRow=rows if rows and not is_pandas else None,
        initialStatePandas=frames if frames and is_pandas else None,
        timeMode=case.mode.replace("_", ""),
        eventTimeExtractor=(lambda row: int(row["ms"])) if case.mode == "event_time" else None,
    )
    tester._usingPandas = is_pandas
    for step in case.steps:
        if isinstance(step, int):
            given: Any = tester.setWatermark(step) if case.mode == "event_time" else tester.setProcessingTime(step)
            yield given.to_dict("records") if is_pandas else [row.asDict() for row in given]
            continue
        made: list[dict[str, Any]] = []
        for key in dict.fromkeys(item["user"] for item in step):
            mine = [item for item in step if item["user"] == key]
            if is_pandas:
                frame: Any = tester.testInPandas(key, pandas.DataFrame(mine))
                made += frame.to_dict("records")
            else:
                made += [row.asDict() for row in tester.test(key, [Row(**item) for item in mine])]
        yield made


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keys are in any order; the rows of one key are in order."""
    return sorted(rows, key=lambda row: str(row["user"]))


@pytest.mark.parametrize("is_restored", [False, True], ids=["straight", "restored"])
@pytest.mark.parametrize("name", CASES)
def test_a_processor_gives_what_it_gives_in_spark(name: str, is_restored: bool) -> None:
    case = CASES[name]
    subject = Subject(case)
    has_rows = False
    for step, expected in zip(case.steps, told_by_spark(case), strict=True):
        given = subject.step(step)
        assert by_key(given) == by_key(expected), step
        has_rows = has_rows or bool(given)
        if is_restored:
            subject.restore()
    assert has_rows
    subject.harness.operator.close()
