from __future__ import annotations

import socket

import pytest

from snapline.config import Monitoring
from snapline.errors import ConfigurationError
from snapline.web.listen_sockets import listening_socket, root_url


def test_the_first_free_port_of_a_range_is_taken() -> None:
    with listening_socket(Monitoring(port=None)) as first:
        taken = first.getsockname()[1]
        with listening_socket(Monitoring(port=f"{taken}-{min(taken + 200, 65535)}")) as second:
            assert taken < second.getsockname()[1] <= taken + 200
        with socket.create_connection(("127.0.0.1", taken), timeout=5):
            pass


def test_a_port_in_use_is_named() -> None:
    with listening_socket(Monitoring(port=None)) as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"Monitoring\(port='{port}'\): is in use on 127.0.0.1"):
            listening_socket(Monitoring(port=port))


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="cannot listen there"):
        listening_socket(Monitoring(host="192.0.2.1", port=None))


def test_urls_of_servers() -> None:
    assert root_url(Monitoring(), 4300) == "http://127.0.0.1:4300"
    assert root_url(Monitoring(host="localhost"), 4300) == "http://localhost:4300"
    assert root_url(Monitoring(host="::1"), 4300) == "http://[::1]:4300"
    everywhere = root_url(Monitoring(host="0.0.0.0"), 4300)
    assert everywhere.startswith("http://")
    assert everywhere.endswith(":4300")
    assert "0.0.0.0" not in everywhere
