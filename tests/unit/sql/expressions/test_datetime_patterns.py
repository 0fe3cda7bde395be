"""The error of a pattern as Spark should give it; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import pytest

from snapline.sql.expressions.datetime_patterns import Field, Section, Text, has_era, pattern_items
from snapline.sql.expressions.registry import SparkError, UnsupportedError

RECOGNITION = "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION"


def test_items() -> None:
    assert pattern_items("yyyy-'at' H''[.SSS]", parsing=True) == (
        *(Field("y", 4), Text("-"), Text("at"), Text(" "), Field("H", 1), Text("'")),
        Section((Text("."), Field("S", 3))),
    )


def test_eras() -> None:
    assert has_era(pattern_items("yyyy[ G]", parsing=False))
    assert not has_era(pattern_items("yyyy 'G'", parsing=False))


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("Y", RECOGNITION),
        ("MMMMM", RECOGNITION),
        ("HHH", RECOGNITION),
        ("yyyy-MM-dd #", RECOGNITION),
        ("e", "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN"),
        ("A", "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER"),
        ("QQQQQ", "INVALID_DATETIME_PATTERN.LENGTH"),
        ("VVV", "INVALID_DATETIME_PATTERN.WITH_SUGGESTION"),
        ("yyyy'", "INVALID_DATETIME_PATTERN.WITH_SUGGESTION"),
        ("foo", "INVALID_DATETIME_PATTERN.WITH_SUGGESTION"),
    ],
)
def test_patterns_that_spark_refuses(pattern: str, error: str) -> None:
    with pytest.raises(SparkError) as caught:
        pattern_items(pattern, parsing=False)
    assert caught.value.condition == error


def test_letters_that_are_only_written() -> None:
    assert pattern_items("E", parsing=False) == (Field("E", 1),)
    with pytest.raises(SparkError):
        pattern_items("E", parsing=True)


def test_letters_that_do_not_run_here() -> None:
    with pytest.raises(UnsupportedError):
        pattern_items("g", parsing=False)
