"""Figures of a job, and the verdict on them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.soak.figures import (
    DESCRIPTORS_SLACK,
    FILES_SLACK,
    JVM_THREADS_SLACK,
    MEMORY_SLACK_BYTES,
    NOTHING,
    PROCESSES_SLACK,
    THREADS_SLACK,
    Figures,
    Usage,
    count_files,
    highest,
    largest,
    leaks,
    look_at,
    middle,
    still_running,
    usage,
)

from snapline.devtools.kit.processes import look

MEGABYTE = 1 << 20
PLAIN = Usage(100 * MEGABYTE, 10, 20)
START = Figures(PLAIN, PLAIN, PLAIN, PLAIN, 12, 40, 0)


def later(part: str, **changed: int) -> Figures:
    """The start, with other figures of one part."""
    parts: dict[str, Any] = {part: replace(PLAIN, **changed)}
    return replace(START, **parts)


def test_what_stays_the_same_or_shrinks_is_no_leak() -> None:
    assert leaks(START, START) == []
    assert leaks(START, Figures(NOTHING, NOTHING, NOTHING, NOTHING, 0, 0, 0)) == []


@pytest.mark.parametrize("part", ["driver", "driver_jvm", "slots", "operators"])
@pytest.mark.parametrize("figure", ["threads", "descriptors"])
def test_threads_and_descriptors_of_every_process_count(part: str, figure: str) -> None:
    threads = JVM_THREADS_SLACK if part == "driver_jvm" else THREADS_SLACK
    slack = threads if figure == "threads" else DESCRIPTORS_SLACK
    most = getattr(PLAIN, figure) + slack
    assert leaks(START, later(part, **{figure: most})) == []
    (leak,) = leaks(START, later(part, **{figure: most + 1}))
    assert leak == f"{figure} of {part}: {getattr(PLAIN, figure)}, later {most + 1}"


@pytest.mark.parametrize("part", ["driver", "slots", "operators"])
def test_memory_may_grow_by_a_quarter_and_some_slack(part: str) -> None:
    most = 125 * MEGABYTE + MEMORY_SLACK_BYTES
    assert leaks(START, later(part, memory_bytes=most)) == []
    (leak,) = leaks(START, later(part, memory_bytes=most + MEGABYTE))
    assert leak == f"memory of {part}: 100 MiB, later {(most >> 20) + 1} MiB"


def test_the_memory_of_a_jvm_is_its_own_affair() -> None:
    assert leaks(START, replace(START, driver_jvm=replace(PLAIN, memory_bytes=1 << 40))) == []


def test_processes_and_files_count() -> None:
    assert leaks(START, replace(START, processes=12 + PROCESSES_SLACK)) == []
    assert leaks(START, replace(START, processes=13 + PROCESSES_SLACK)) == ["processes: 12, later 14"]
    assert leaks(START, replace(START, checkpoint_files=60 + FILES_SLACK)) == []
    assert leaks(START, replace(START, checkpoint_files=61 + FILES_SLACK)) == ["checkpoint files: 40, later 111"]
    assert leaks(START, replace(START, temporary_files=FILES_SLACK + 1)) == ["temporary files: 0, later 51"]


def test_every_breach_is_named() -> None:
    end = replace(START, processes=99, driver=Usage(1 << 40, 99, 99))
    assert [leak.split(":")[0] for leak in leaks(START, end)] == [
        "memory of driver",
        "threads of driver",
        "descriptors of driver",
        "processes",
    ]


def test_the_median_and_the_maximum_are_taken_of_each_figure() -> None:
    low = replace(START, driver=Usage(1, 9, 5), processes=1)
    mid = replace(START, driver=Usage(2, 1, 6), processes=3)
    high = replace(START, driver=Usage(3, 5, 4), processes=2)
    assert middle([low, mid, high]) == replace(START, driver=Usage(2, 5, 5), processes=2)
    assert highest([low, mid, high]) == replace(START, driver=Usage(3, 9, 6), processes=3)
    assert middle([mid]) == highest([mid]) == mid


def test_figures_become_json() -> None:
    assert START.as_json()["driver"] == {"memory_bytes": 100 * MEGABYTE, "threads": 10, "descriptors": 20}
    assert START.as_json()["processes"] == 12


def test_the_usage_of_a_process(tmp_path: Path) -> None:
    before = usage(os.getpid())
    assert before is not None
    assert before.memory_bytes > MEGABYTE
    assert before.threads >= 1
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        after = usage(os.getpid())
    assert after is not None
    assert after.descriptors == before.descriptors + 2
    assert count_files(tmp_path) == 2


def test_a_process_that_is_gone_uses_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = look(child.pid)
    assert process is not None
    assert still_running([process]) == [child.pid]
    child.communicate(b"\n")
    assert still_running([process]) == []
    assert usage(child.pid) is None
    assert largest([child.pid]) == NOTHING
    assert look_at(child.pid, [], tmp_path, tmp_path) is None
