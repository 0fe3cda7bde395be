"""Which lines of the production shells the simulated runs execute, and which functions have lines left."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

SHELLS = {
    "task": "snapline.runtime.task.task",
    "gate": "snapline.runtime.task.input_gate",
    "snapshots": "snapline.runtime.task.subtask_snapshots",
    "outputs": "snapline.runtime.task.task_outputs",
    "master": "snapline.runtime.master.job_master",
    "coordinator shell": "snapline.runtime.master.coordinator_shell",
    "coordinator runner": "snapline.runtime.master.coordinator_runner",
    "coordinator mail": "snapline.runtime.task.coordinator_mail",
    "deployment": "snapline.runtime.master.deployment",
    "slots": "snapline.runtime.master.slots",
    "slot board": "snapline.protocol.job.slot_board",
    "recovery": "snapline.runtime.master.job_recovery",
    "end": "snapline.runtime.master.job_end",
    "archive": "snapline.storage.archive",
    "task host": "snapline.runtime.slot.task_host",
    "supervisor": "snapline.runtime.slot.supervisor",
}
"""The measured shells, by their name in the report."""


class LineTracer:
    """Collects the lines that run. Call `start` in every thread and greenlet to trace."""

    def __init__(self) -> None:
        self.lines: dict[str, set[int]] = {name: set() for name in SHELLS}
        self._files = {_file(module): self.lines[name] for name, module in SHELLS.items()}

    def start(self) -> None:
        sys.settrace(self._called)

    def stop(self) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        lines = self._files.get(frame.f_code.co_filename)
        if lines is None:
            return None

        def ran(frame: FrameType, event: str, argument: Any) -> Any:
            del argument
            if event == "line":
                lines.add(frame.f_lineno)
            return ran

        return ran


def line_report(executed: Mapping[str, set[int]]) -> dict[str, dict[str, Any]]:
    """For each shell, the share of executed lines in its functions, and where the others are."""
    report: dict[str, dict[str, Any]] = {}
    for name, module in SHELLS.items():
        functions = dict(_functions(_file(module)))
        wanted = {line for lines in functions.values() for line in lines}
        left = Counter({function: len(lines - executed[name]) for function, lines in functions.items()})
        report[name] = {
            "module": module,
            "lines": len(wanted),
            "share": round(len(wanted & executed[name]) / len(wanted), 3),
            "left": [f"{function}: {count}" for function, count in left.most_common() if count],
        }
    return report


def _file(module: str) -> str:
    return str(importlib.import_module(module).__file__)


def _functions(path: str) -> Iterator[tuple[str, set[int]]]:
    """Every function of a file with the lines of its body, without those of nested functions."""
    with open(path, encoding="utf-8") as file:
        pending = [("", compile(file.read(), path, "exec"))]
    while pending:
        prefix, code = pending.pop()
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                name = f"{prefix}{inner.co_name}"
                pending.append((f"{name}.", inner))
                if inner.co_flags & inspect.CO_OPTIMIZED:  # a function, not a class body
                    lines = {line for _, _, line in inner.co_lines() if line is not None}
                    yield f"{name}:{inner.co_firstlineno}", lines - {inner.co_firstlineno}
