"""Plans of chaos, and what is made of a run; tests/spark carries them out."""

from __future__ import annotations

import pytest

from snapline.devtools.chaos.chaos_driver import ROWS_PER_SECOND
from snapline.devtools.chaos.chaos_run import FAILURES, POSSIBLE, Chaos, Plan, Result, Suffered
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


def test_there_are_more_rows_for_more_failures() -> None:
    one, two = (Plan(failures=("user",) * count).rows_in_all for count in (1, 2))
    assert two > one >= ROWS_PER_SECOND
    assert Plan(rows=7).rows_in_all == 7


def test_every_failure_is_possible_somewhere() -> None:
    assert {failure for failures in POSSIBLE.values() for failure in failures} == set(FAILURES)


@pytest.mark.parametrize("problems", [(), ("3 of 10 rows are missing",)])
def test_a_result_is_good_without_problems(problems: tuple[str, ...]) -> None:
    result = Result(Plan(), 10, 7, 2, 3.0, (Suffered("user", "an exception", 2, 0.31),), problems)
    assert result.is_good is (not problems)
    assert result.as_json()["suffered"][0]["recovered_s"] == 0.31


def test_a_standalone_plan_needs_a_cluster() -> None:
    with pytest.raises(AssertionError, match="cluster is needed"):
        Chaos(lambda _: None)._master("standalone")
