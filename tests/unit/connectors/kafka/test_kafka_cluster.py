from __future__ import annotations

from typing import Any

import pytest

from snapline.connectors.kafka.kafka_cluster import TopicChoice
from snapline.errors import ConfigurationError

COUNTS = {"clicks": 3, "click-a": 1, "click-b": 2, "__consumer_offsets": 50, "broken": 0}


@pytest.mark.parametrize(
    ("topics", "pattern", "found"),
    [
        ("clicks", None, {"clicks": 3}),
        (["click-b", "clicks"], None, {"click-b": 2, "clicks": 3}),
        (["clicks", "other"], None, {"clicks": 3}),
        (None, "click-.", {"click-a": 1, "click-b": 2}),
        (None, "click", {}),
        (None, ".*", {"clicks": 3, "click-a": 1, "click-b": 2}),
        (None, "__.*", {"__consumer_offsets": 50}),
    ],
)
def test_topics_that_are_chosen(topics: Any, pattern: Any, found: dict[str, int]) -> None:
    assert TopicChoice.of(topics, pattern, "Kafka").chosen(COUNTS) == found


@pytest.mark.parametrize(
    ("topics", "pattern", "problem"),
    [
        (None, None, "one of them"),
        ("a", "b", "one of them"),
        ([], None, "give a name, or a list"),
        ([3], None, "give a name, or a list"),
        (["a", "a"], None, "has 'a' twice"),
        (None, "(", "no regular expression"),
        (None, 3, "no regular expression"),
    ],
)
def test_wrong_choices(topics: Any, pattern: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        TopicChoice.of(topics, pattern, "Kafka")


def test_what_is_missing() -> None:
    assert TopicChoice(("clicks",)).missing(COUNTS, "Kafka") is None
    assert "did you mean 'clicks'" in str(TopicChoice(("clickz",)).missing(COUNTS, "Kafka"))
    assert "there are 'broken', 'click-a', 'click-b' and 1 more." in str(TopicChoice(("zzz",)).missing(COUNTS, "Kafka"))
    assert "no topics that this user can see" in str(TopicChoice(("zzz",)).missing({}, "Kafka"))
    assert "no topic matches pattern='z'" in str(TopicChoice(pattern="z").missing(COUNTS, "Kafka"))
    assert (str(TopicChoice(("a",))), str(TopicChoice(pattern="a"))) == ("topics=['a']", "pattern='a'")
