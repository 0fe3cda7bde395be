"""Time to live."""

from __future__ import annotations

from datetime import timedelta

import pytest

from snapline.errors import ConfigurationError
from snapline.state.ttl import Ttl, as_ttl


def test_a_duration_is_a_time_to_live() -> None:
    assert as_ttl(None, "it") is None
    assert as_ttl("30min", "it") == Ttl("30min")
    assert as_ttl(Ttl(timedelta(seconds=2), refresh_on_read=True), "it") == Ttl(timedelta(seconds=2), True)
    assert Ttl("30min").duration_ms == 30 * 60 * 1000


@pytest.mark.parametrize(("wrong", "problem"), [("0s", "ttl is 0"), ("soon", "soon"), (Ttl("0s"), "ttl is 0")])
def test_an_impossible_duration_names_what_it_is_for(wrong: Ttl | str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"state 'x': .*{problem}"):
        as_ttl(wrong, "state 'x'")
