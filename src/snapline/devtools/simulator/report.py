"""What the seeds covered, in groups; whatever must occur is listed even with count 0."""

from __future__ import annotations

from collections import Counter

from snapline.devtools.simulator.scenario import Ending, Fault, Handler
from snapline.types import ClaimMode

_RESTORES = (
    "from the beginning",
    "own latest checkpoint",
    "own stop savepoint",
    *(f"checkpoint of another run, {mode.value}" for mode in ClaimMode),
    *(f"savepoint, {mode.value}" for mode in ClaimMode),
    "rescaled",
    "rescaled with in-flight data",
    "with in-flight data",
    "with finished tasks",
    "some regions only",
)
_GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "faults": ("fault: ", tuple(fault.value for fault in Fault)),
    "handlers": ("handler: ", tuple(mode.value for mode in Handler)),
    "restores": ("restore: ", _RESTORES),
    "endings": ("ending: ", tuple(ending.value for ending in Ending)),
}


def coverage_report(coverage: Counter[str]) -> dict[str, dict[str, int]]:
    """Counts by group: faults, handlers, restores, endings, and everything else that happened."""
    report: dict[str, dict[str, int]] = {}
    grouped: set[str] = set()
    for group, (prefix, expected) in _GROUPS.items():
        counts = {what: coverage[prefix + what] for what in expected}
        for key in sorted(coverage):
            if key.startswith(prefix):
                grouped.add(key)
                counts.setdefault(key.removeprefix(prefix), coverage[key])
        report[group] = counts
    report["happenings"] = {key: coverage[key] for key in sorted(coverage) if key not in grouped}
    return report
