"""Jobs on real Spark that suffer real failures count every row exactly once. `snapline.devtools.chaos` does more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from snapline.devtools.chaos.chaos_run import Chaos, Plan
from snapline.devtools.servers.standalone_cluster import StandaloneCluster

pytestmark = pytest.mark.slow


def check(plan: Plan, directory: Path, cluster: StandaloneCluster | None = None) -> list[str]:
    """Run it; what was told meanwhile."""
    story: list[str] = []
    result = Chaos(story.append, cluster).run(plan, directory)
    assert result.is_good, "\n".join([*result.problems, *story])
    assert [it.failure for it in result.suffered] == list(plan.failures)
    assert result.attempts > len(plan.failures), story
    return story


@pytest.mark.parametrize(
    "plan",
    [
        Plan("local", "aligned", False, ("user", "operator", "worker")),
        Plan("local", "unaligned", True, ("worker", "driver")),
        Plan("process", "at-least-once", True, ("operator", "user", "driver")),
    ],
    ids=lambda plan: f"{plan.deployment}-{plan.mode}-{'pressure' if plan.back_pressure else 'ease'}",
)
def test_no_row_is_lost_or_counted_twice(plan: Plan, tmp_path: Path) -> None:
    check(plan, tmp_path)


def test_what_a_hung_executor_does_when_it_wakes_up_does_not_count(
    standalone_cluster: StandaloneCluster, tmp_path: Path
) -> None:
    plan = Plan("standalone", "unaligned", False, ("hang", "executor"))
    story = check(plan, tmp_path, standalone_cluster)
    (stopped,) = [int(match[1]) for line in story if (match := re.match(r"\*\*\* SIGSTOP of (\d+) ", line))]
    assert stopped >= 4, "the executor, Spark's daemon, a Python worker and its operator process at least"
    # how many of them are still there to wake up depends on how soon Spark's worker clears away the rest
    assert any(line.startswith("*** SIGCONT of ") for line in story)
