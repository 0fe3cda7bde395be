from __future__ import annotations

from typing import Any

import pytest

from snapline.errors import ConfigurationError
from snapline.sql.trigger_intervals import interval_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 seconds", 10_000),
        (" 1 SECOND ", 1000),
        ("interval 2 seconds", 2000),
        ("1 minute 30 seconds", 90_000),
        ("1 week", 604_800_000),
        ("100 microseconds", 1),
        ("0 seconds", 0),
        ("200ms", 200),
    ],
)
def test_intervals_of_spark(text: str, expected: int) -> None:
    assert interval_ms(text) == expected


@pytest.mark.parametrize("text", ["abc", "", "-1 seconds", "1 month", "5", 5])
def test_anything_else_is_refused(text: Any) -> None:
    with pytest.raises(ConfigurationError, match="10 seconds"):
        interval_ms(text)
