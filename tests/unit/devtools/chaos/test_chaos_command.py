"""The command `python -m snapline.devtools.chaos`; tests/spark shows that it works."""

from __future__ import annotations

import json

import pytest

from snapline.devtools.chaos import chaos_command as chaos
from snapline.devtools.chaos.chaos_run import FAILURES, Plan, Result, Suffered


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
