"""What a job uses: memory, threads, descriptors, files and processes, read from /proc."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from snapline.devtools.kit.processes import operator_processes

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process."""

    memory_bytes: int
    threads: int
    descriptors: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a job at one moment. Operator processes are the largest one."""

    driver: Usage
    operators: Usage
    processes: int
    checkpoint_files: int

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


def figures(driver: int, roots: list[int], checkpoints: Path) -> Figures | None:
    """None while the driver or all operator processes are gone."""
    own = usage(driver)
    found = [it for process in operator_processes(*roots) if (it := usage(process.pid)) is not None]
    if own is None or not found:
        return None
    largest = Usage(
        max(it.memory_bytes for it in found), max(it.threads for it in found), max(it.descriptors for it in found)
    )
    files = sum(len(names) for _, _, names in os.walk(checkpoints))
    return Figures(own, largest, len(found), files)


def leaks(first: Figures, last: Figures) -> list[str]:
    """What has grown by more than the ups and downs of a job explain."""
    found: list[str] = []
    for name, before, after in (
        ("driver", first.driver, last.driver),
        ("operator process", first.operators, last.operators),
    ):
        if after.memory_bytes > 1.5 * before.memory_bytes + (64 << 20):
            found.append(f"memory of the {name}: {before.memory_bytes >> 20} MiB, later {after.memory_bytes >> 20} MiB")
        if after.threads > before.threads + 10:
            found.append(f"threads of the {name}: {before.threads}, later {after.threads}")
        if after.descriptors > before.descriptors + 30:
            found.append(f"descriptors of the {name}: {before.descriptors}, later {after.descriptors}")
    if last.processes > first.processes + 1:
        found.append(f"operator processes: {first.processes}, later {last.processes}")
    if last.checkpoint_files > 2 * first.checkpoint_files + 100:
        found.append(f"files of checkpoints: {first.checkpoint_files}, later {last.checkpoint_files}")
    return found
