"""Spark's test classes, from a checkout of its repository."""

from __future__ import annotations

import importlib
import io
import sys
import time
import traceback
import unittest
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pyspark.sql

from snapline.errors import ConfigurationError

_MODULES = "pyspark.sql.tests.pandas.streaming"
CLASSES = {
    "test_pandas_transform_with_state": "TransformWithStateInPandasTests",
    "test_pandas_transform_with_state_state_variable": "TransformWithStateInPandasStateVariableTests",
    "test_transform_with_state": "TransformWithStateInPySparkTests",
    "test_transform_with_state_state_variable": "TransformWithStateInPySparkStateVariableTests",
}

SAYS_NOTHING = "test_assert_classic_mode"
"""A test that every class inherits; it starts no query."""

_PANDAS_ONLY = ("int_to_decimal_coercion", "with_bytes_limit", "with_records_limit")
"""Tests that return at once in the classes of rows."""


class Outcome(Enum):
    """PASSED: its assertions hold. EMPTY: it passes and asserts nothing of a query. FAILED: an assertion fails."""

    PASSED = "pass"
    EMPTY = "says nothing"
    FAILED = "fail"


@dataclass(frozen=True)
class Result:
    """What a test said. `reason` is the last line of its failure, or why it says nothing."""

    name: str
    outcome: Outcome
    seconds: float
    reason: str = ""
    trace: str = ""


def load(checkout: Path) -> list[unittest.TestCase]:
    """Returns the tests of the four classes. Raises `ConfigurationError` if this is no checkout of Spark."""
    package = checkout / "python" / "pyspark" / "sql"
    if not (package / "tests").is_dir():
        raise ConfigurationError(f"{checkout} is no checkout of Spark: {package / 'tests'} is missing")
    if str(package) not in pyspark.sql.__path__:
        pyspark.sql.__path__.append(str(package))
    loader = unittest.TestLoader()
    found: list[unittest.TestCase] = []
    for module, name in CLASSES.items():
        tests = getattr(importlib.import_module(f"{_MODULES}.{module}"), name)
        found += [test for test in loader.loadTestsFromTestCase(tests) if isinstance(test, unittest.TestCase)]
    return found


def name_of(test: unittest.TestCase) -> str:
    return f"{type(test).__name__}.{test._testMethodName}"


def run(test: unittest.TestCase) -> Result:
    """Runs one test, with the fixtures of its class, which must be set up."""
    name = name_of(test)
    began_s = time.monotonic()
    told = unittest.TestResult()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        test.run(told)
    seconds = time.monotonic() - began_s
    if told.skipped:
        return Result(name, Outcome.EMPTY, seconds, f"Spark skips it: {told.skipped[0][1]}")
    failures = [*told.failures, *told.errors]
    if failures:
        trace = failures[0][1]
        return Result(name, Outcome.FAILED, seconds, _last_line(trace), trace)
    reason = _emptiness(name)
    return Result(name, Outcome.EMPTY if reason else Outcome.PASSED, seconds, reason)


def _emptiness(name: str) -> str:
    if name.endswith(SAYS_NOTHING):
        return "it only asks whether Spark Connect is off"
    if "InPySpark" in name and name.endswith(_PANDAS_ONLY):
        return "it returns at once without pandas"
    return ""


def _last_line(trace: str) -> str:
    lines = [line for line in trace.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def class_setup_error(tests: type[unittest.TestCase]) -> str | None:
    """Sets up a class; returns what went wrong."""
    try:
        tests.setUpClass()
    except Exception:
        return traceback.format_exc()
    return None


def quiet_modules() -> None:
    """Spark's tests warn a lot."""
    if not sys.warnoptions:
        import warnings

        warnings.simplefilter("ignore")
