"""Durations and sizes: what is accepted, and what is refused with which advice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from snapline.config.units import Duration, duration_ms, positive_duration_ms, size_bytes
from snapline.errors import ConfigurationError


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("2s", 2_000),
        ("500ms", 500),
        ("10 min", 600_000),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("  3  Seconds ", 3_000),
        ("1 MINUTE", 60_000),
        ("1.5s", 1_500),
        ("2.3s", 2_300),
        ("0.1ms", 1),
        ("0", 0),
        ("0s", 0),
        (0, 0),
        (timedelta(minutes=5), 300_000),
        (timedelta(microseconds=1_500), 2),
        (timedelta(0), 0),
    ],
)
def test_a_duration_becomes_milliseconds(value: Duration, milliseconds: int) -> None:
    assert duration_ms(value) == milliseconds


@pytest.mark.parametrize("value", [5, 2.5, -1, "5", "2.5"])
def test_a_bare_number_is_refused_and_asks_for_a_unit(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^pause=.*add one, for example") as caught:
        duration_ms(value, setting="pause")
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("", "not a duration"),
        ("soon", "not a duration"),
        ("-2s", "not a duration"),
        ("2s 5ms", "not a duration"),
        ("1e3s", "not a duration"),
        ("٣s", "not a duration"),
        ("2 fortnights", "unknown unit 'fortnights'; use one of ms"),
        ("3us", "unknown unit"),
        (timedelta(seconds=-1), "cannot be negative"),
        ("36501d", "too long; use at most 36500d"),
        ("9" * 20 + "d", "too long"),
        ("9" * 21 + "ms", "not a duration"),
        (True, "not a duration"),
        (None, "not a duration"),
        ([2], "not a duration"),
    ],
)
def test_what_is_no_duration_is_refused(value: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        duration_ms(value, setting="interval")
    assert str(caught.value).startswith(f"interval={value!r}: ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("64MB", 64 << 20),
        ("20kb", 20 << 10),
        ("1 GiB", 1 << 30),
        ("2t", 2 << 40),
        ("1.5k", 1536),
        ("7 bytes", 7),
        ("4096", 4096),
        (4096, 4096),
        (0, 0),
    ],
)
def test_a_size_becomes_bytes(value: str | int, size: int) -> None:
    assert size_bytes(value) == size


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("much", "not a size"),
        ("3 meters", "unknown unit 'meters'; use one of b"),
        (-1, "cannot be negative"),
        ("2000000TB", "too large"),
        (1.5, "not a size"),
        (True, "not a size"),
        (None, "not a size"),
    ],
)
def test_what_is_no_size_is_refused(value: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        size_bytes(value, setting="buffer")
    assert str(caught.value).startswith(f"buffer={value!r}: ")
    assert complaint in str(caught.value)


def test_a_positive_duration_may_not_be_nothing() -> None:
    assert positive_duration_ms("1ms", "delay") == 1
    with pytest.raises(ConfigurationError, match="delay='0s': must be longer than nothing"):
        positive_duration_ms("0s", "delay")
