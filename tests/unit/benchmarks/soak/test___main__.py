"""The command of the soak run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from benchmarks.soak import __main__ as command


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    saved = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in saved.items():
        signal.signal(number, handler)


def ending(monkeypatch: pytest.MonkeyPatch, problems: list[str]) -> list[tuple[float, int]]:
    """Replace the run by one that ends like this; what it was asked for."""
    asked: list[tuple[float, int]] = []

    def run(minutes: float, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
        asked.append((minutes, seed))
        say("it runs")
        return {"verdict": "breached" if problems else "held", "problems": problems}

    monkeypatch.setattr(command, "run", run)
    return asked


def test_a_run_that_held_exits_with_0(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ending(monkeypatch, [])
    assert command.main(["--minutes", "3", "--seed", "9", "--json"]) == 0
    assert asked == [(3.0, 9)]
    told = capsys.readouterr()
    assert json.loads(told.out) == {"verdict": "held", "problems": []}
    assert told.err == "it runs\n"


def test_a_breach_exits_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ending(monkeypatch, ["joined: 1 rows are missing"])
    assert command.main(["--quiet"]) == 1
    told = capsys.readouterr()
    assert told.out == "verdict: breached\nproblems: ['joined: 1 rows are missing']\n"
    assert told.err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_unwinds_the_run_once(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    cleared: list[str] = []

    def run(minutes: float, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            os.kill(os.getpid(), number)  # the impatient press it twice
            cleared.append("all")
        return {}

    monkeypatch.setattr(command, "run", run)
    assert command.main([]) == command.INTERRUPTED
    assert cleared == ["all"]


def test_a_run_that_is_too_short_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["--minutes", "0.5"])
    assert "--minutes 0.5: use at least 1" in capsys.readouterr().err
