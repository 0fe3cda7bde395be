"""Every example runs, and shows what its text says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from snapline.devtools.replay.replay_command import KINDS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted((EXAMPLES / "replay").glob("*.jsonl"))


def run(*command: str, stdin: str = "") -> str:
    finished = subprocess.run(
        [sys.executable, *command], input=stdin, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    assert finished.stderr == ""
    return finished.stdout


def test_there_is_an_example_of_every_kind() -> None:
    assert [path.stem for path in SCRIPTS] == sorted(KINDS)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_replay_scripts_are_understood(path: Path) -> None:
    script = path.read_text()
    answers = [json.loads(line) for line in run("-m", "snapline.testing.replay", path.stem, stdin=script).splitlines()]
    assert [answer["id"] for answer in answers] == [json.loads(line)["id"] for line in script.splitlines()]
    assert [answer for answer in answers if "error" in answer and answer["error"] is not None] == []


def test_a_handler_driven_by_hand() -> None:
    out = run(str(EXAMPLES / "drive_a_handler.py"))
    assert "-> BlockChannel(channel=0)" in out
    assert "-> CheckpointTriggered(barrier=Barrier(id=1" in out
    assert "-> HandlerAborted(checkpoint_id=2, reason=<AbortReason.CANCELLED: 'CANCELLED'>)" in out


def test_keyed_state(tmp_path: Path) -> None:
    out = run(str(EXAMPLES / "keyed_state.py"))
    assert "in the file: {'key_group': 13, 'key': 'ann', 'value': 3}" in out
    assert "subtask 0, key groups 0 to 63: {'ann': 3, 'dan': 1}" in out
    assert "subtask 1, key groups 64 to 127: {'bob': 2, 'eve': 3}" in out
    assert run(str(EXAMPLES / "keyed_state.py"), str(tmp_path)) == out
    shown = run("-m", "snapline", "inspect", str(tmp_path / "chk-1"), "--state", "clicks/clicks")
    assert "0        13         ann  3" in shown


def test_a_job_explains_itself_and_the_picture_in_the_docs_is_fresh(tmp_path: Path) -> None:
    out = run(str(EXAMPLES / "explain.py"), str(tmp_path / "plan.svg"), str(tmp_path / "plan.txt"))
    assert out.startswith("Job 'revenue': 7 operators in 6 vertices, 4 slots\n")
    assert (tmp_path / "plan.txt").read_text(encoding="utf-8") == out
    picture = (ROOT / "docs" / "images" / "plan.svg").read_text(encoding="utf-8")
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8") == picture, "run `make docs`"


@pytest.mark.slow
def test_data_sources_of_pyspark() -> None:
    out = run(str(EXAMPLES / "data_source.py"))
    assert out.splitlines() == ["JobStatus.FINISHED", "customer-0 334", "customer-1 333", "customer-2 333"]


@pytest.mark.slow
def test_the_benchmark_of_the_protocol_core_runs() -> None:
    result = json.loads(run("-m", "benchmarks.protocol", "--json"))
    assert len(result["costs"]) == 3
    assert all(cost["ratio"] > 0 and cost["events"] > 0 for cost in result["costs"].values())
