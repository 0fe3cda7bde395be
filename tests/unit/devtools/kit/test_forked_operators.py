"""Operator processes that are forks: their ends are told as those of launched ones are."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from tests.program_kit import programs

from snapline.config import Encryption
from snapline.devtools.kit.forked_operators import ForkedOperators
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.wire.credentials import new_credentials

WITHIN_S = 60.0


def bootstrap() -> Bootstrap:
    """Of a job whose driver is not there."""
    return Bootstrap(
        job_id="job",
        generation=1,
        slot=0,
        incarnation=7,
        driver_host="127.0.0.1",
        driver_port=1,
        credentials=new_credentials(Encryption.NONE),
        host="127.0.0.1",
        heartbeat_interval_ms=1000,
        heartbeat_timeout_ms=10_000,
        parent_pid=os.getpid(),
        sys_path=[],
        shipment=b"",
    )


class Ends:
    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        self.came = threading.Event()

    def __call__(self, incarnation: int, reason: str, output: str) -> None:
        self.told.append((incarnation, reason))
        self.came.set()


def test_a_process_that_gives_up_says_why() -> None:
    ends = Ends()
    operators = ForkedOperators(programs(), bootstrap(), ends)
    assert ends.came.wait(WITHIN_S)
    ((incarnation, reason),) = ends.told
    assert incarnation == operators.incarnation == 7
    assert reason.startswith("exited with status 1: ")
    operators.kill()
    assert not operators.is_running


@pytest.mark.parametrize("by_us", [False, True])
def test_a_killed_one(monkeypatch: pytest.MonkeyPatch, by_us: bool) -> None:
    """What is killed on purpose is not told."""
    monkeypatch.setattr(Bootstrap, "encoded", lambda _: b"")  # so that it waits
    ends = Ends()
    operators = ForkedOperators(programs(), bootstrap(), ends)
    assert operators.is_running
    assert os.getpgid(operators.pid) == operators.pid
    if by_us:
        operators.kill()
        assert ends.told == []
    else:
        os.kill(operators.pid, signal.SIGKILL)
        assert ends.came.wait(WITHIN_S)
        assert ends.told == [(7, "killed by signal 9")]
        operators.kill()
