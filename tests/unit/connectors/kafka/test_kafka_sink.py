from __future__ import annotations

import re
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"topic": ""}, "topic=''; give the name of a topic"),
        ({"topic": "snapline-commits"}, "keep markers apart from rows"),
        ({"guarantee": "twice"}, "use 'exactly_once' or 'at_least_once'"),
        ({"format": "json"}, "format='json'; give a format, such as sl.formats.Json()"),
        ({"key": ["a", "b"]}, "key=['a', 'b'] needs key_format="),
        ({"key_format": sl.formats.Json()}, "key_format= needs key="),
        ({"max_size": 0}, "max_size=0; use more"),
        ({"config": {"transactional.id": "x"}}, "'transactional.id': ...} is not yours to set"),
        ({"bootstrap": ""}, "give the address of a broker"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        sl.sinks.Kafka(**{"bootstrap": "localhost:9092", "topic": "t", **settings})


def test_rows_are_checked_before_anything_runs() -> None:
    sink = sl.sinks.Kafka("localhost:9092", "t", key="user")
    sink.check(pa.schema({"user": pa.string()}))
    with pytest.raises(ConfigurationError, match="key names the column 'user'"):
        sink.check(pa.schema({"id": pa.string()}))


def test_only_exactly_once_has_two_phases() -> None:
    assert sl.sinks.Kafka("localhost:9092", "t").two_phase
    assert not sl.sinks.Kafka("localhost:9092", "t", guarantee="at_least_once").two_phase


def test_it_travels_and_shows_no_password() -> None:
    sink = sl.sinks.Kafka("localhost:9092", "t", username="me", password="hidden-word")
    assert repr(cloudpickle.loads(cloudpickle.dumps(sink))) == "Kafka('localhost:9092', 't')"
