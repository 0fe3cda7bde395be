from __future__ import annotations

import json
from typing import Any

import msgspec

from snapline.devtools.kit.sample_views import sample_record
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.web.record_cache import SPARE_ROWS, DetailsCache, RowCache


def decoded(row: Any) -> Any:
    return json.loads(msgspec.json.encode(row))


def test_a_row_is_encoded_once_as_long_as_it_stays() -> None:
    rows, record = RowCache(), sample_record(5)
    assert rows.flink([record])[0] is rows.flink([record])[0]
    assert rows.own([record], {})[0] is rows.own([record], {})[0]
    assert decoded(rows.flink([record])[0])["id"] == 5


def test_a_changed_record_is_encoded_anew() -> None:
    rows = RowCache()
    assert decoded(rows.flink([sample_record(5, running=True)])[0])["status"] == "IN_PROGRESS"
    assert decoded(rows.flink([sample_record(5)])[0])["status"] == "COMPLETED"
    assert decoded(rows.own([sample_record(5, running=True)], {})[0])["status"] == "IN_PROGRESS"
    assert decoded(rows.own([sample_record(5)], {})[0])["status"] == "COMPLETED"


def test_another_explanation_is_noticed_and_an_equal_one_is_not() -> None:
    rows, record = RowCache(), sample_record(5)
    first = rows.own([record], {5: Explanation(5, SlowCause.SKEW, "so")})[0]
    assert rows.own([record], {5: Explanation(5, SlowCause.SKEW, "so")})[0] is first
    other = rows.own([record], {5: Explanation(5, SlowCause.SKEW, "or so")})[0]
    assert decoded(other)["explanation"]["sentence"] == "or so"
    assert decoded(rows.own([record], {})[0])["explanation"] is None


def test_rows_that_left_the_history_are_dropped() -> None:
    rows, history = RowCache(), [sample_record(number, {"a": 1}) for number in range(2 * SPARE_ROWS)]
    kept = rows.flink(history)
    rows.own(history, {})
    rows.prune(history)
    assert rows.flink(history)[0] is kept[0]
    rows.prune(history[-10:])
    assert len(rows._flink) == len(rows._own) == 10
    assert rows.flink(history[-10:])[0] is kept[-10]


def test_details_are_kept_up_to_a_size() -> None:
    made: list[int] = []
    cache = DetailsCache(max_bytes=25)

    def get(record: CheckpointRecord, beside: object = None) -> bytes:
        def make() -> str:
            made.append(record.id)
            return "x" * 8

        return cache.get("details", record, beside, make)

    records = [sample_record(number, {"a": 1}) for number in range(3)]
    for record in (records[0], records[1], records[0], records[2], records[0], records[1]):
        assert get(record) == b'"xxxxxxxx"'
    assert made == [0, 1, 2, 1]
    get(records[1], "other")
    get(sample_record(1, {"a": 1}))
    assert made == [0, 1, 2, 1, 1, 1]
    huge = DetailsCache(max_bytes=1)
    assert huge.get("details", records[0], None, lambda: "large") == b'"large"'
