"""The socket that a server listens on, and its address as people write it."""

from __future__ import annotations

import errno
import os
import socket
from ipaddress import ip_address

from snapline.config import Monitoring, port_range
from snapline.errors import ConfigurationError

BACKLOG = 128
"""Connections that wait to be accepted."""

_TAKEN = (errno.EADDRINUSE, errno.EACCES)


def listening_socket(monitoring: Monitoring) -> socket.socket:
    """A socket that listens on the first free port of the setting. Raises `ConfigurationError` if there is none."""
    host = "127.0.0.1" if monitoring.host == "localhost" else monitoring.host
    for port in port_range(monitoring.port):
        try:
            return _bound(host, port)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise ConfigurationError(
                    f"Monitoring(host={monitoring.host!r}): cannot listen there: {error.strerror}; give an address of "
                    "this machine"
                ) from error
    which = "is" if "-" not in (monitoring.port or "") else "are all"
    raise ConfigurationError(
        f"Monitoring(port={monitoring.port!r}): {which} in use on {monitoring.host}; give another port, a range such "
        'as "4300-4399", or None for any free one (spark.snapline.monitoring.port)'
    )


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    # With the protocol, since asyncio sets TCP_NODELAY only where it is named.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def root_url(monitoring: Monitoring, port: int) -> str:
    """The address of a server, without a slash at its end."""
    host = monitoring.host
    if host != "localhost" and ip_address(host).is_unspecified:
        host = _own_address(is_six=":" in host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _own_address(*, is_six: bool) -> str:
    """The address of this machine in its network; connecting a datagram socket sends nothing."""
    family, elsewhere = (socket.AF_INET6, "2001:db8::1") if is_six else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return os.uname().nodename
