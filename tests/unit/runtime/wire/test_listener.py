"""Listening on the ports a job may use."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

import pytest

from snapline.errors import ConfigurationError
from snapline.runtime.wire.listener import listen


def free_ports(count: int) -> int:
    """The first of some ports in a row that nobody uses now."""
    for first in range(20_000, 30_000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def test_the_system_chooses_unless_a_port_is_given() -> None:
    with listen("127.0.0.1", None, "slot_ports", 1) as first, listen("127.0.0.1", None, "slot_ports", 1) as second:
        assert first.getsockname()[1] != second.getsockname()[1]


def test_the_first_free_port_of_a_range_is_taken_and_a_full_range_is_refused() -> None:
    start = free_ports(2)
    ports = f"{start}-{start + 1}"
    with listen("127.0.0.1", ports, "slot_ports", 1) as first, listen("127.0.0.1", ports, "slot_ports", 1) as second:
        assert [sock.getsockname()[1] for sock in (first, second)] == [start, start + 1]
        with pytest.raises(ConfigurationError, match=f"slot_ports='{ports}': no port of these is free"):
            listen("127.0.0.1", ports, "slot_ports", 1)
    with listen("127.0.0.1", str(start), "slot_ports", 1) as again:
        assert again.getsockname()[1] == start


def test_an_address_of_another_machine_is_no_matter_of_ports() -> None:
    with pytest.raises(OSError, match=r"[Cc]annot assign"):
        listen("192.0.2.1", None, "slot_ports", 1)


def test_names_and_both_families() -> None:
    with listen("localhost", None, "slot_ports", 1) as sock:
        assert sock.getsockname()[0] in ("127.0.0.1", "::1")


def test_a_system_without_free_ports_is_no_matter_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_port(*arguments: object, **options: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(socket, "create_server", no_port)
    with pytest.raises(OSError, match="already in use"):
        listen("127.0.0.1", None, "slot_ports", 1)
