from __future__ import annotations

from typing import Any

import cloudpickle
import pytest

import snapline as sl
from snapline.errors import ConfigurationError

JSON = sl.formats.Json("x BIGINT")


def kafka(**options: Any) -> sl.Source:
    return sl.sources.Kafka("host:9092", **{"topics": "t", "format": JSON, **options})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"topics": None}, "one of them"),
        ({"format": "json"}, "give one of snapline.formats"),
        ({"group": ""}, "give the name of a consumer group"),
        ({"reset": "newest"}, "use one of 'fail', 'earliest', 'latest'"),
        ({"isolation": "none"}, "use 'read_committed'"),
        ({"on_error": "ignore"}, "on_error='ignore'"),
        ({"start": "first"}, "use 'earliest'"),
        ({"start": "group"}, "give group="),
        ({"bounded": "yes"}, "bounded='yes'"),
        ({"discovery": "0s"}, "use a positive interval"),
        ({"batch_rows": 0}, "batch_rows=0"),
        ({"backlog": 0}, "backlog=0"),
        ({"metadata": ["value"]}, "metadata has 'value'"),
        ({"config": {"group.id": "g"}}, "use group="),
        ({"user": "ada"}, "there is no setting 'user'"),
    ],
)
def test_wrong_settings(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        kafka(**options)


def test_kinds_of_sources() -> None:
    source = kafka(metadata={"offset": "at"})
    assert (source.is_bounded, source.in_step, source.discovery_interval_ms) == (False, True, 30_000)
    assert source.schema.names == ["x", "at"]
    assert source.splits(2) == ()  # discover() finds them
    bounded = kafka(bounded=True)
    assert (bounded.is_bounded, bounded.in_step, bounded.discovery_interval_ms) == (True, True, None)
    assert repr(kafka(password="very secret", username="ada")) == "Kafka('host:9092', topics=['t'])"
    assert cloudpickle.loads(cloudpickle.dumps(source)).schema == source.schema
