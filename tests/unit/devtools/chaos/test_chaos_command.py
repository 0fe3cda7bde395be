"""The command `python -m snapline.devtools.chaos.chaos_command`; that it works is shown in tests/spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from snapline.devtools.chaos import chaos_command as chaos
from snapline.devtools.chaos.chaos_run import FAILURES, Chaos, Plan, Result, Suffered
from snapline.devtools.kit.processes import descendants, executor_above, look, operator_processes, send
from snapline.errors import ConfigurationError


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        ({"deployment": "yarn"}, "deployment 'yarn': use one of process, local"),
        ({"mode": "exactly"}, "mode 'exactly': use one of aligned"),
        ({"failures": ("fire",)}, "failure 'fire': on local use one of user"),
        ({"failures": ("executor",)}, "failure 'executor': on local"),
        ({"deployment": "process", "failures": ("worker",)}, "failure 'worker': on process"),
        ({"rows": 0}, "0 rows"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(plan: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Plan(**plan)  # type: ignore[arg-type]


def test_all_is_every_failure_in_every_mode_with_and_without_back_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []

    def run(given: list[Plan], *_: object) -> list[Result]:
        plans.extend(given)
        return []

    monkeypatch.setattr(chaos, "_run", run)
    assert chaos.main(["--all", "--quiet"]) == 0
    cells = {(failure, plan.mode, plan.back_pressure) for plan in plans for failure in plan.failures}
    assert len(cells) == len(FAILURES) * 3 * 2


@pytest.mark.parametrize(("problems", "status"), [((), 0), (("3 of 10 rows are missing",), 1)])
def test_the_exit_status_and_the_table_tell_whether_the_proof_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problems: tuple[str, ...], status: int
) -> None:
    suffered = (Suffered("user", "an exception", 2, 0.31),)
    result = Result(Plan(failures=("user", "worker")), 10, 7, 2, 3.0, suffered, problems)
    monkeypatch.setattr(chaos, "_run", lambda *_: [result])
    assert chaos.main(["--quiet"]) == status
    printed = capsys.readouterr().out
    assert "0.3 s" in printed
    assert "missed" in printed
    assert (problems[0] if problems else "every row exactly once") in printed
    assert chaos.main(["--quiet", "--json"]) == status
    (told,) = json.loads(capsys.readouterr().out)
    assert told["is_good"] is (status == 0)


def test_what_cannot_be_run_has_a_status_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["--failures", "fire"]) == 2
    assert "use one of" in capsys.readouterr().err


def test_a_process_without_an_executor_above_it() -> None:
    assert executor_above(os.getpid()) is None
    assert operator_processes(os.getpid()) == []
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        [found] = descendants(os.getpid())
        assert (found.pid, found.parent) == (child.pid, os.getpid())
        assert send(child.pid, signal.SIGKILL)
    assert look(child.pid) is None
    assert not found.is_running
    assert not send(child.pid, signal.SIGKILL)


def test_a_standalone_plan_needs_a_cluster() -> None:
    with pytest.raises(AssertionError, match="cluster is needed"):
        Chaos(lambda _: None)._master("standalone")
