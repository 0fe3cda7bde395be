"""The examples of docs/commands.md run, and their output looks as it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.cli.command_kit import Place, wait_until
from tests.program_kit import programs

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"

GO = """
import snapline as sl
from clicks import job
from snapline.testing import ThreadCluster

job.monitoring = sl.Monitoring()
job.run(ThreadCluster())
"""


@dataclass(frozen=True, slots=True)
class Example:
    """A command of the page, its exit code, and its output up to the first line of dots."""

    command: str
    code: int
    output: tuple[str, ...]


def examples(page: str) -> Iterator[Example]:
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *output = part.splitlines()
            command, _, comment = line.partition("  # exit code ")
            shown = output[: output.index("...")] if "..." in output else output
            yield Example(command, int(comment or 0), tuple(shown))


def looks(line: str) -> str:
    """A line without its figures, and without what depends on the moment."""
    line = re.sub(r"\b[0-9a-f]{12,}\b", "#", line)
    line = re.sub(r"[0-9][0-9,.:TZ-]*", "#", line)
    line = re.sub(r"\b# (ms|s|min|h|B|kB|MB|%)(?!\w)", "#", line)
    return " ".join(line.replace(", deleted", "").split())


@pytest.fixture
def directory(place: Place) -> Iterator[Path]:
    """Where the page's job runs."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert program.count('interval="2s"') == 1
    program = program.replace('interval="2s"', 'interval="200ms"')
    directory = place.directory / "home" / "me"
    directory.mkdir(parents=True)
    (directory / "clicks.py").write_text(program)
    environment = {**place.environment, "PYTHONPATH": str(directory)}
    with (directory / "log").open("wb") as log:
        driver = programs().start(["-c", GO], environment=environment, directory=str(directory), output=log)
    try:
        wait_until(lambda: place.run("status", "clicks").code == 0, "the job runs")
        wait_until(lambda: place.json("status", "clicks")["counts"]["completed"] >= 3, "checkpoints complete")
        yield directory
    finally:
        driver.close()


def test_every_command_has_a_section() -> None:
    page = PAGE.read_text()
    command = [sys.executable, "-m", "snapline", "--help"]
    help = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    commands = re.findall(r"^    (\w+)", help, re.MULTILINE)
    assert len(commands) > 10
    assert [command for command in commands if f"`{command}`" not in page] == []


def test_the_examples_look_as_the_page_says(place: Place, directory: Path) -> None:
    found = list(examples(PAGE.read_text()))
    assert len(found) > 10
    for example in found:
        program, *arguments = shlex.split(example.command)
        assert program == "snapline"
        done = place.run(*arguments, directory=directory)
        assert done.code == example.code, (example.command, done.err)
        shown = (done.out + done.err).replace(str(directory), "/home/me").splitlines()
        if example.command.startswith("snapline inspect"):
            shown = [line for line in shown if not line.startswith("chk-")]
            expected = [line for line in example.output if not line.startswith("chk-")]
        else:
            expected = list(example.output)
        if example.command.startswith(("snapline status", "snapline checkpoints")):
            # How fast it is, and why not, depends on the machine.
            expected, shown = expected[:1], shown[:1]
        assert [looks(line) for line in shown[: len(expected)]] == [looks(line) for line in expected], example.command
