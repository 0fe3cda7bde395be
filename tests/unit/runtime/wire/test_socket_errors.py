"""A machine that ran out of something is not a network that is closed."""

from __future__ import annotations

import errno
import os

import pytest

from snapline.runtime.wire.socket_errors import connect_advice, listen_advice


def problem(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.EADDRINUSE, "no free port left"), (errno.EMFILE, "ulimit -n"), (errno.ENFILE, "fs.file-max")],
)
def test_a_port_that_does_not_open(number: int, advice: str) -> None:
    assert advice in listen_advice(problem(number), "other")
    assert listen_advice(problem(errno.EADDRNOTAVAIL), "other") == "other", "the address is not of this machine"


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.EADDRNOTAVAIL, "no free port left"), (errno.EMFILE, "ulimit -n"), (errno.ENOBUFS, "no memory")],
)
def test_a_connection_that_does_not_open(number: int, advice: str) -> None:
    assert advice in connect_advice(problem(number), "other")
    assert connect_advice(problem(errno.ECONNREFUSED), "other") == "other"
    assert connect_advice(OSError("without a number"), "other") == "other"
