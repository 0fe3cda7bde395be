"""Where the page of a job is, who may use it, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from snapline.config import NO_MONITORING, Monitoring, Secret
from snapline.errors import ConfigurationError


def test_by_default_only_this_machine_sees_it() -> None:
    monitoring = Monitoring()
    assert (monitoring.enabled, monitoring.host, monitoring.port, monitoring.token) == (
        True,
        "127.0.0.1",
        "4300-4399",
        None,
    )
    assert monitoring.is_loopback
    assert (monitoring.read_only, monitoring.history, monitoring.traces) == (False, 1000, False)


def test_no_monitoring_serves_and_keeps_nothing() -> None:
    assert not NO_MONITORING.enabled
    assert NO_MONITORING.history == 0
    assert not NO_MONITORING.traces


@pytest.mark.parametrize(
    ("host", "kept", "is_loopback"),
    [
        ("localhost", "localhost", True),
        ("127.0.0.2", "127.0.0.2", True),
        ("::1", "::1", True),
        ("0.0.0.0", "0.0.0.0", False),
        ("10.1.2.3", "10.1.2.3", False),
        ("::", "::", False),
    ],
)
def test_addresses(host: str, kept: str, is_loopback: bool) -> None:
    monitoring = Monitoring(host=host)
    assert (monitoring.host, monitoring.is_loopback) == (kept, is_loopback)


@pytest.mark.parametrize(("port", "kept"), [(8080, "8080"), ("8080-8089", "8080-8089"), (None, None)])
def test_ports(port: Any, kept: str | None) -> None:
    assert Monitoring(port=port).port == kept


def test_a_token_is_a_secret() -> None:
    monitoring = Monitoring(token="abc")
    assert isinstance(monitoring.token, Secret)
    assert "abc" not in repr(monitoring)
    assert Monitoring(token=Secret.env("T")).token == Secret.env("T")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"host": "example.org"}, "not an address of this machine"),
        ({"host": ""}, "not an address"),
        ({"port": 0}, "port"),
        ({"port": "9-8"}, "port"),
        ({"token": ""}, "token: empty"),
        ({"token": 5}, "token: a int"),
        ({"enabled": "false"}, "neither True nor False"),
        ({"read_only": 1}, "neither True nor False"),
        ({"traces": "yes"}, "neither True nor False"),
        ({"history": -1}, "at least 0"),
        ({"history": 100_001}, "at most 100000"),
    ],
)
def test_wrong_settings_are_refused_with_their_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Monitoring(**settings)
