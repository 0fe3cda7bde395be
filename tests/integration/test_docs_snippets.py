"""The Python in the pages for users runs, in the order of the page, and gives what the page says.

So do the README's example and those of whole jobs.
"""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from tests.docs_pages import BLOCK, DOCS, NEVER, ON_SPARK, blocks, run_page

import snapline
from snapline.config import duration_ms, size_bytes
from snapline.connectors.sinks import read_files
from snapline.testing.clusters import ProcessCluster, ThreadCluster

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGES = (
    "tutorial.md",
    "concepts.md",
    "api.md",
    "coordinators.md",
    "windows.md",
    "joins.md",
    "process.md",
    "spark.md",
    "connectors.md",
    "own-connectors.md",
    "operations.md",
    "slow-checkpoints.md",
    "monitoring.md",
    "testing.md",
    "state.md",
    "storage.md",
    "from-flink.md",
    "from-structured-streaming.md",
)
PAGES_WITH_MESSAGES = ("state.md", "storage.md", "operations.md")
SLOW_PAGES = (
    "tutorial.md",
    "api.md",
    "coordinators.md",
    "windows.md",
    "joins.md",
    "process.md",
    "spark.md",
    "connectors.md",
    "own-connectors.md",
    "operations.md",
    "slow-checkpoints.md",
    "testing.md",
)
MESSAGE_TABLE = re.compile(r"^\| message has \|.*\n\|[-| ]+\n((?:\|.*\n)+)", re.MULTILINE)


def _speed(page: str) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.slow,) if page in SLOW_PAGES else ()


class _ByNeed:
    """Stands for Spark: real processes for the job that is killed, threads for the others."""

    def __init__(self, killed: str) -> None:
        self._killed = killed
        self._threads = ThreadCluster()
        self._processes = ProcessCluster()

    def start_job(self, job: snapline.Job) -> snapline.JobHandle:
        job.execution = snapline.Execution(heartbeat_timeout="60s")  # machines that run tests may be slow
        return (self._processes if job.name == self._killed else self._threads).start_job(job)


@pytest.mark.parametrize("page", [pytest.param(page, marks=_speed(page)) for page in PAGES])
def test_the_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, spark=_ByNeed(killed="clicks"))


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_is_python_at_least(page: str) -> None:
    others = [block for block in blocks(page) if block.info]
    assert {block.info for block in others} <= {NEVER, ON_SPARK}
    for block in others:
        ast.parse(block.code)


@pytest.mark.parametrize("page", PAGES_WITH_MESSAGES)
def test_messages_in_the_tables_are_those_of_the_code(page: str) -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in Path(snapline.__file__).parent.rglob("*.py"))
    rows = [
        row for table in MESSAGE_TABLE.findall((DOCS / page).read_text(encoding="utf-8")) for row in table.split("\n")
    ]
    messages = [message for row in rows if row for message in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert len(messages) > 10
    missing = [piece for message in messages for piece in message.split(" ... ") if piece not in source]
    assert missing == []


@pytest.mark.parametrize("settings", [snapline.Checkpoints, snapline.Execution])
def test_tables_of_settings_are_those_of_the_code(settings: type[Any]) -> None:
    section = (
        (DOCS / "api.md").read_text(encoding="utf-8").partition(f"\n## {settings.__name__}\n")[2].partition("\n## ")[0]
    )
    rows = [row.split(" | ") for row in section.splitlines() if re.match(r"\| ?\w* ?\| `", row)]
    shown = {
        name: default.strip()
        for _, names, defaults, *_ in (("", *row[1:]) for row in rows)
        for name, default in zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=True)
    }
    defaults = {name: parameter.default for name, parameter in inspect.signature(settings).parameters.items()}
    assert set(shown) == set(defaults)
    wrong = {name: text for name, text in shown.items() if not _says(text, defaults[name])}
    assert wrong == {}


def _says(text: str, default: Any) -> bool:
    """Whether a table says what the default is; None has many names."""
    if isinstance(default, str) and default[0].isdigit():
        kind = duration_ms if default.rstrip("bB")[-1] in "smhdn" else size_bytes
        return kind(text) == kind(default)
    if isinstance(default, Enum):
        return text.strip('`"') in (default.name, default.value)
    return default is None or text == str(default)


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in (*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))):
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# Examples of whole jobs.


def test_the_example_of_the_readme_is_the_file() -> None:
    (shown,) = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    example = (EXAMPLES / "clicks.py").read_text(encoding="utf-8")
    assert shown[1].strip() == example.partition('"""\n')[2].strip()


@pytest.mark.slow
def test_clicks() -> None:
    names = runpy.run_path(str(EXAMPLES / "clicks.py"))
    try:
        assert names["job"].run(ThreadCluster()).value == "FINISHED"
        counts = read_files(f"{names['data']}/counts").group_by("user").aggregate([("n", "max"), ("total", "max")])
        totals = snapline.sources.Rate(rows=30_000, users=5).expected_sums()
        assert dict(zip(counts["user"].to_pylist(), counts["total_max"].to_pylist(), strict=True)) == totals
        assert sum(counts["n_max"].to_pylist()) == 29_681  # rows with a value of 0 are left out
    finally:
        shutil.rmtree(names["data"])


@pytest.mark.slow
def test_own_operator() -> None:
    assert "50 users have passed the limit, each reported once: True" in _output("own_operator.py")


@pytest.mark.slow
def test_process() -> None:
    assert "500 sessions with 20000 clicks" in _output("process.py")


@pytest.mark.slow
def test_joins() -> None:
    assert "Bonn 1: 39984" in _output("joins.py")


@pytest.mark.slow
def test_windows() -> None:
    assert "20000 clicks in all" in _output("windows.py")


@pytest.mark.slow
def test_restart_and_rescale() -> None:
    out = _output("restart_and_rescale.py")
    assert "first version: FINISHED" in out
    assert "every row counted once: True" in out


def _output(example: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example)], capture_output=True, text=True, timeout=120, check=True, cwd=ROOT
    )
    assert done.stderr == ""
    return done.stdout
