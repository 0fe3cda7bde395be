"""What a job uses: memory, threads, descriptors, files and processes, read from /proc, and whether it has grown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

from snapline.devtools.kit.processes import Process, descendants, operator_processes

MEMORY_GROWTH = 1.25
MEMORY_SLACK_BYTES = 64 << 20
"""An operator process that has just been started takes less than one whose state has its usual size."""

THREADS_SLACK = 10
JVM_THREADS_SLACK = 40
"""Spark's pools start their threads when they are first used, some of them with the first recovery."""

DESCRIPTORS_SLACK = 30
PROCESSES_SLACK = 1

FILES_GROWTH = 1.5
FILES_SLACK = 50

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process, or of the largest of several."""

    memory_bytes: int
    threads: int
    descriptors: int


NOTHING = Usage(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a job at one moment. The driver's JVM is Spark's part of the driver; slots are Spark's Python workers."""

    driver: Usage
    driver_jvm: Usage
    slots: Usage
    operators: Usage
    processes: int
    checkpoint_files: int
    temporary_files: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def usage(pid: int) -> Usage | None:
    """Of a process, or None if it is gone."""
    try:
        process = Path("/proc") / str(pid)
        memory_bytes = int((process / "statm").read_text().split()[1]) * _PAGE_BYTES
        return Usage(memory_bytes, len(list((process / "task").iterdir())), len(list((process / "fd").iterdir())))
    except (FileNotFoundError, ProcessLookupError):
        return None


def look_at(driver: int, cluster: Sequence[int], checkpoints: Path, temporary: Path) -> Figures | None:
    """None while the driver or all operator processes are gone."""
    own, operators = usage(driver), operator_processes(driver, *cluster)
    if own is None or not operators:
        return None
    below = descendants(driver)
    return Figures(
        driver=own,
        driver_jvm=largest(process.pid for process in below if process.parent == driver),
        slots=largest({process.parent for process in operators}),
        operators=largest(process.pid for process in operators),
        processes=1 + len(below) + sum(1 + len(descendants(root)) for root in cluster),
        checkpoint_files=count_files(checkpoints),
        temporary_files=count_files(temporary),
    )


def largest(pids: Iterable[int]) -> Usage:
    found = [it for pid in pids if (it := usage(pid)) is not None]
    return _each_usage(max, found) if found else NOTHING


def count_files(directory: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(directory))


def middle(samples: Sequence[Figures]) -> Figures:
    """The median of each figure. At least one sample."""
    return _each(median_low, samples)


def highest(samples: Sequence[Figures]) -> Figures:
    """The maximum of each figure. At least one sample."""
    return _each(max, samples)


_USAGES = ("driver", "driver_jvm", "slots", "operators")
_COUNTS = ("processes", "checkpoint_files", "temporary_files")


def _each(choose: Callable[[list[int]], int], samples: Sequence[Figures]) -> Figures:
    usages = {name: _each_usage(choose, [getattr(it, name) for it in samples]) for name in _USAGES}
    counts = {name: choose([getattr(it, name) for it in samples]) for name in _COUNTS}
    return Figures(**usages, **counts)  # type: ignore[arg-type]


def _each_usage(choose: Callable[[list[int]], int], found: Sequence[Usage]) -> Usage:
    return Usage(
        choose([it.memory_bytes for it in found]),
        choose([it.threads for it in found]),
        choose([it.descriptors for it in found]),
    )


def leaks(first: Figures, last: Figures) -> list[str]:
    """What has grown by more than the ups and downs of a job explain.

    The memory of the driver's JVM is left out: a JVM takes what its heap may have before it collects.
    """
    found: list[str] = []
    for name in _USAGES:
        before, after = getattr(first, name), getattr(last, name)
        most_bytes = MEMORY_GROWTH * before.memory_bytes + MEMORY_SLACK_BYTES
        if name != "driver_jvm" and after.memory_bytes > most_bytes:
            found.append(f"memory of {name}: {before.memory_bytes >> 20} MiB, later {after.memory_bytes >> 20} MiB")
        if after.threads > before.threads + (JVM_THREADS_SLACK if name == "driver_jvm" else THREADS_SLACK):
            found.append(f"threads of {name}: {before.threads}, later {after.threads}")
        if after.descriptors > before.descriptors + DESCRIPTORS_SLACK:
            found.append(f"descriptors of {name}: {before.descriptors}, later {after.descriptors}")
    if last.processes > first.processes + PROCESSES_SLACK:
        found.append(f"processes: {first.processes}, later {last.processes}")
    for name in ("checkpoint_files", "temporary_files"):
        few, many = getattr(first, name), getattr(last, name)
        if many > FILES_GROWTH * few + FILES_SLACK:
            found.append(f"{name.replace('_', ' ')}: {few}, later {many}")
    return found


def still_running(processes: Iterable[Process]) -> list[int]:
    """The ids of those that have not ended."""
    return sorted(process.pid for process in processes if process.is_running)
