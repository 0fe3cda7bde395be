"""Why a process cannot run a job: one line, one cause, and what to do."""

from __future__ import annotations

import errno

from snapline.errors import ConfigurationError
from snapline.runtime.slot.start_problems import listening_failed, start_problem


def test_what_snapline_says_is_kept() -> None:
    assert start_problem(ConfigurationError("state_backend='rocksdb' needs rocksdict")) == (
        "state_backend='rocksdb' needs rocksdict"
    )


def test_a_missing_module_is_shipped_or_installed() -> None:
    problem = start_problem(ModuleNotFoundError("No module named 'numby'", name="numby"))
    assert problem.startswith("the executors lack the module 'numby'; install it where the executors run, or ship it")
    assert "same versions" not in problem


def test_only_what_cannot_be_unpacked_raises_the_question_of_versions() -> None:
    assert "same versions of Python" in start_problem(AttributeError("Can't get attribute 'f'"))
    no_ports = listening_failed("10.0.0.1", OSError(errno.EADDRINUSE, "Address already in use"))
    assert no_ports == (
        "slots cannot listen at 10.0.0.1: [Errno 98] Address already in use; this machine has no free port left: end "
        "what holds them, or widen the range (sysctl net.ipv4.ip_local_port_range)"
    )
    foreign = listening_failed("10.0.0.1", OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"))
    assert foreign.endswith("set Execution(host=...) to an address of each machine, or leave it out")
