"""The simulator finds nothing wrong with the machines, and something wrong with each broken one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from snapline.devtools.simulator.mutant import Mutant
from snapline.devtools.simulator.mutants import MUTANTS
from snapline.devtools.simulator.report import coverage_report
from snapline.devtools.simulator.scenario import Handler, make_scenario
from snapline.devtools.simulator.simulation import simulate
from snapline.devtools.simulator.simulator_command import MUTANT_SEEDS, main


@pytest.mark.parametrize(
    "first", [first if first < 50 else pytest.param(first, marks=pytest.mark.slow) for first in range(0, 100, 25)]
)
def test_seeds_show_nothing_wrong(first: int) -> None:
    errors = {seed: outcome.error for seed in range(first, first + 25) if (outcome := simulate(seed)).error}
    assert errors == {}


@pytest.mark.slow
@pytest.mark.parametrize("handler", list(Handler))
def test_each_handler_can_be_asked_for(handler: Handler) -> None:
    outcomes = [simulate(seed, handler) for seed in range(1000, 1008)]
    assert [outcome.error for outcome in outcomes] == [""] * len(outcomes)
    assert all(outcome.coverage[f"handler: {handler.value}"] == 1 for outcome in outcomes)


CAUGHT_LATE = {
    "no-fence": 4,
    "in-flight-dropped": 14,
    "no-filter": 33,
    "union-incomplete": 2,
    "wrong-owner": 4,
    "split-as-union": 3,
    "shared-deleted-early": 4,
    "delete-unclaimed": 23,
    "no-committables": 15,
    "old-restore-point": 1,
    "effects-breadth-first": 1,
    "replayed-twice": 19,
    "outputs-not-restored": 29,
    "stale-incarnation": 2,
    "leaves-uncommitted": 3,
    "slots-never-given-back": 1,
    "finished-not-told": 5,
    "coordinators-of-other-regions-lost": 23,
    "other-regions-unheard": 2,
    "one-region-per-slot": 12,
    "wall-clock-schedule": 14,
}
"""The seeds of mutants that the first ones do not catch (`--mutants --json` tells), to save the way there."""


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_is_caught_within_fifty_seeds(mutant: Mutant) -> None:
    seeds = (CAUGHT_LATE.get(mutant.name, 0), *range(MUTANT_SEEDS))
    with mutant.applied():
        caught = next(seed for seed in seeds if simulate(seed, mutant.handler, mutant.fault).error)
    assert simulate(caught, mutant.handler, mutant.fault).error == ""


def test_a_mutant_is_gone_when_its_context_ends() -> None:
    mutant = MUTANTS[0]
    before = getattr(mutant.owner, mutant.attribute)
    with mutant.applied():
        assert getattr(mutant.owner, mutant.attribute) is not before
    assert getattr(mutant.owner, mutant.attribute) is before


def test_one_seed_gives_one_run() -> None:
    once, again = simulate(11, story=True), simulate(11, story=True)
    assert once == again
    assert len(once.story) > 20
    assert simulate(12).steps != once.steps


@pytest.mark.slow
def test_one_seed_gives_one_run_in_every_process() -> None:
    program = (
        "from snapline.devtools.simulator.simulation import simulate\n"
        "for seed in range(40, 44): print(seed, *simulate(seed, story=True).story, sep='\\n')"
    )
    stories = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        ).stdout
        for salt in ("1", "2")
    }
    assert len(stories) == 1
    assert len(stories.pop()) > 2_000


def test_a_story_does_not_change_the_run() -> None:
    told, untold = simulate(17, story=True), simulate(17)
    assert (told.steps, told.coverage) == (untold.steps, untold.coverage)
    assert untold.story == ()


def test_a_scenario_depends_on_its_seed_alone() -> None:
    assert make_scenario(5) == make_scenario(5)
    assert make_scenario(5) != make_scenario(6)


def test_coverage_lists_what_never_happened() -> None:
    report = coverage_report(Counter({"fault: message lost": 3, "handler: aligned": 1, "input captured": 7}))
    assert report["faults"]["message lost"] == 3
    assert report["faults"]["driver crash"] == 0
    assert report["handlers"] == {"aligned": 1, "unaligned": 0, "alternating": 0, "tracker": 0}
    assert report["happenings"] == {"input captured": 7}


# The command line.


@pytest.mark.slow
def test_json_of_many_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "5", "--jobs", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["seeds"] == 5
    assert result["failures"] == []
    assert result["steps"] > 0
    assert result["seconds"] >= 0
    assert set(result["coverage"]) == {"faults", "handlers", "restores", "endings", "happenings"}


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for jobs in ("1", "2"):
        assert main(["--seeds", "12", "--start", "7", "--jobs", jobs, "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        del result["seconds"]
        results.append(result)
    assert results[0] == results[1]


def test_a_failure_names_its_seed_and_the_way_to_its_story(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--mutant", "unpublished", "--seeds", "2", "--jobs", "1"]
    assert main([*arguments, "--json"]) == 1
    failures = json.loads(capsys.readouterr().out)["failures"]
    assert failures
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert f"seed {failures[0]['seed']}: {failures[0]['error']}" in out
    assert f"--seed {failures[0]['seed']} --story" in out


def test_story_of_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--story"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("claims attempt 1" in line for line in lines)
    assert lines[-1].startswith("seed 3: nothing wrong")


@pytest.mark.slow
def test_json_of_named_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mutants", "early-commit", "no-blocking", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["mutants"]) == ["early-commit", "no-blocking"]
    assert result["missed"] == []
    assert all(entry["seed"] < MUTANT_SEEDS and entry["error"] for entry in result["mutants"].values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "-5"], "-5 is not between"),
        (["--seeds", "0"], "use at least 1"),
        (["--seeds", "many"], "'many' is not a whole number"),
        (["--seed", "-1"], "-1 is not between"),
        (["--mutants", "no-such"], "there is no mutant 'no-such'; known are no-blocking"),
        (["--mutant", "no-such", "--seed", "1"], "there is no mutant 'no-such'"),
        (["--handler", "sideways"], "invalid choice: 'sideways'"),
        (["--story"], "give it a --seed"),
        (["--seed", "1", "--story", "--json"], "choose one"),
        (["--mutants", "--seed", "1"], "use --mutant NAME with --seed"),
        (["--wrong"], "unrecognized arguments: --wrong"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert leaving.value.code == 2
    assert message in capsys.readouterr().err


def test_mutants_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--list-mutants"])
    assert leaving.value.code == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [mutant.name for mutant in MUTANTS]


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "snapline.testing.sim", "--seed", "1", "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert json.loads(finished.stdout) == {"seed": 1, "error": None, "steps": simulate(1).steps}
