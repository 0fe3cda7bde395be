"""Checks that the settings classes share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from snapline.config.setting_checks import (
    MAX_COUNT,
    count,
    file_mode,
    flag,
    member,
    number,
    path,
    paths,
    port_range,
    ports,
)
from snapline.errors import ConfigurationError


class Colour(Enum):
    DARK_RED = 1


def test_what_is_right_is_returned_in_its_plain_form() -> None:
    assert count(MAX_COUNT, "n", least=0) == MAX_COUNT
    assert count(MAX_COUNT + 1, "n", least=0, most=None) == MAX_COUNT + 1
    assert (number(2, "n"), flag(False, "n")) == (2.0, False)
    assert member(Colour, " dark-Red ", "n") is member(Colour, Colour.DARK_RED, "n") is Colour.DARK_RED
    assert (ports(7, "n"), ports("7-9", "n"), ports(None, "n")) == ("7", "7-9", None)
    assert [list(port_range(checked)) for checked in ("7", "7-9", None)] == [[7], [7, 8, 9], [0]]
    assert [file_mode(mode, "n") for mode in ("0700", "750", 0o755, None)] == [0o700, 0o750, 0o755, None]
    assert paths("/a,s3://b", "n") == paths(["/a", "s3://b"], "n") == ("/a", "s3://b")
    assert (paths(Path("/a"), "n"), paths((), "n")) == (("/a",), ())
    assert (path(Path("/a"), "n"), path("s3://b", "n"), path(None, "n")) == ("/a", "s3://b", None)


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        (lambda: count(2.0, "n", least=1), "n=2.0: not a whole number"),
        (lambda: count(0, "n", least=1), "n=0: too small; use at least 1"),
        (lambda: count(3, "n", least=1, most=2), "n=3: too large; use at most 2"),
        (lambda: number(True, "n"), "n=True: not a finite number"),
        (lambda: number(float("nan"), "n"), "n=nan: not a finite number"),
        (lambda: flag("false", "n"), "n='false': neither True nor False"),
        (lambda: member(Colour, "blue", "n"), "n='blue': unknown; use one of DARK_RED"),
        (lambda: path("  ", "n"), "n='  ': empty"),
        (lambda: path(b"/a", "n"), "n=b'/a': not a path"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_refused_by_name(check: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check()
    assert complaint in str(caught.value)
