"""What to do about a socket that does not open: the machine may have run out of something."""

from __future__ import annotations

import errno

_NO_PORTS = (
    "this machine has no free port left: end what holds them, or widen the range (sysctl net.ipv4.ip_local_port_range)"
)
_EXHAUSTED = {
    errno.EMFILE: "this process may not open more files: raise its limit (ulimit -n)",
    errno.ENFILE: "this machine may not open more files: raise its limit (sysctl fs.file-max)",
    errno.ENOBUFS: "this machine has no memory left for sockets",
    errno.ENOMEM: "this machine has no memory left for sockets",
}


def listen_advice(error: OSError, otherwise: str) -> str:
    """Advice about a port chosen by the system that cannot be opened."""
    if error.errno == errno.EADDRINUSE:
        return _NO_PORTS
    return _EXHAUSTED.get(error.errno or 0, otherwise)


def connect_advice(error: OSError, otherwise: str) -> str:
    """Advice about a connection that cannot be opened."""
    if error.errno in (errno.EADDRNOTAVAIL, errno.EADDRINUSE):
        return _NO_PORTS
    return _EXHAUSTED.get(error.errno or 0, otherwise)
