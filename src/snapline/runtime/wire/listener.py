"""Listening sockets on the ports that a job may use."""

from __future__ import annotations

import errno
import socket

from snapline.config import port_range
from snapline.errors import ConfigurationError


def listen(host: str, ports: str | None, setting: str, backlog: int) -> socket.socket:
    """Listen on the first free one of these ports; None lets the system choose.

    Raises `ConfigurationError`, which names the setting, if all of these are in use, `OSError` if `host` is no address
    here or the system has no port left.
    """
    family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    for port in port_range(ports):
        try:
            return socket.create_server((host, port), family=family, backlog=backlog)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or ports is None:
                raise
    raise ConfigurationError(
        f"{setting}={ports!r}: no port of these is free on {host}; every driver and every operator process of a "
        "machine needs one of its own, so give more, or end what uses them"
    )
