"""Summarizes failures of Spark jobs in a few lines."""

from __future__ import annotations

import re
import sys

MAX_LINES = 8
MAX_LINE_LENGTH = 500

_TRACEBACK = "Traceback (most recent call last):"
_STACK = re.compile(r"\s*(at [^ ]+\(|\.\.\. \d+ (more|elided)|Driver stacktrace:|SQLSTATE: |Caused by: java\.)")
_WRAPPING = re.compile(
    r"(An error occurred while calling .*\.$"
    r"|:? ?(org\.apache\.spark\.)?(SparkException: )?Job aborted due to stage failure: "
    r"|Could not recover from a failed barrier ResultStage\. Most recent failure reason: "
    r"|Stage failed because barrier task \S+ \d+\) finished unsuccessfully\.$"
    r"|:? ?([a-z]\w*\.)+(?=[A-Z]\w*: )"
    r"|SparkException: )"
)
_PYTHON_ERROR = re.compile(r"([A-Za-z_]\w*\.)*[A-Za-z_]\w*(: .*)?$")

_NAME_IT = "PYSPARK_PYTHON or spark.pyspark.python, before the SparkSession is created"
_WRONG_PYTHON = {
    "No module named": (
        "install snapline with its dependencies and extras where the executors run, or name a Python that has them "
        f"with {_NAME_IT} (on this machine it is {sys.executable})"
    ),
    "PYTHON_VERSION_MISMATCH": f"name a Python of the driver's version with {_NAME_IT}",
    "Cannot run program": f"name a Python that the executors have with {_NAME_IT}",
}
_FATAL = {
    "SPARK-24942": "barrier stages need spark.dynamicAllocation.enabled=false",
    "SparkContext was shut down": "Spark was stopped while the job ran",
    "stopped SparkContext": "Spark was stopped; create a new SparkSession and start the job again",
}


def describe(error: BaseException) -> tuple[str, bool]:
    """Returns what happened with advice, and whether the failure is fatal: a retry would fail the same way."""
    text = str(error) or type(error).__name__
    summary = summarize(text)
    for mark, advice in _WRONG_PYTHON.items():
        if mark in text:
            line = next((line for line in summary.splitlines() if mark in line), summary)
            return f"{line.rstrip('.')}; {advice}", True
    for mark, advice in _FATAL.items():
        if mark in text:
            return advice, True
    return summary, False


def summarize(text: str) -> str:
    """Returns the relevant lines: the error at the end of a Python traceback if there is one, else the first lines."""
    lines = text.splitlines()
    tracebacks = [index for index, line in enumerate(lines) if _TRACEBACK in line]
    if tracebacks:
        lines = _after_frames(lines[tracebacks[0] + 1 :])
    relevant = [short for line in lines if not _STACK.match(line) and (short := _unwrapped(line.strip()))]
    return "\n".join(line[:MAX_LINE_LENGTH] for line in relevant[:MAX_LINES]) or text.strip()[:MAX_LINE_LENGTH]


def _after_frames(lines: list[str]) -> list[str]:
    """The error after the frames of a traceback, up to the Java frames; the last of chained errors."""
    java = next((index for index, line in enumerate(lines) if line.startswith("\tat ")), len(lines))
    lines = lines[:java]
    errors = [
        index
        for index, line in enumerate(lines)
        if index and lines[index - 1].startswith("  ") and _PYTHON_ERROR.match(line)
    ]
    return lines[errors[-1] :] if errors else lines


def _unwrapped(line: str) -> str:
    while match := _WRAPPING.match(line):
        line = line[match.end() :]
    return line
