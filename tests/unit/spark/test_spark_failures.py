"""Errors of Spark jobs as users see them."""

from __future__ import annotations

import pytest

from snapline.spark.spark_failures import MAX_LINE_LENGTH, MAX_LINES, describe, summarize

BEGIN = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier "
    "ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(2, 1) finished "
    "unsuccessfully.\n"
)
TRACEBACK = (
    "org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
    "Traceback (most recent call last):\n"
    '  File "/x/worker.py", line 4327, in invoke_udf\n'
    "    run_process()\n"
    "    ^^^^^^^^^^^^^\n"
)
STACK = (
    " SQLSTATE: 38000\n"
    "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1097)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    "Caused by: java.io.EOFException\n"
    "\t... 22 more\n"
    "\n"
    "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4560)\n"
)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            f"{BEGIN}{TRACEBACK}snapline.errors.PeerError: slot 1 gives up\nsecond line\n{STACK}",
            "PeerError: slot 1 gives up\nsecond line",
        ),
        (
            f"{BEGIN}{TRACEBACK}KeyError: 'a'\n\nDuring handling of the above exception, another one occurred:\n\n"
            f'Traceback (most recent call last):\n  File "/x.py", line 1, in f\n    g()\nValueError: b\n{STACK}',
            "ValueError: b",
        ),
        (
            f"{BEGIN}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).\n{STACK}",
            "Python worker exited unexpectedly (crashed).",
        ),
        (
            "An error occurred while calling z:x.\n: org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 "
            "cancelled part of cancelled job group g SQLSTATE: XXKDA\n\tat x.Y(Z.scala:1)\n",
            "[SPARK_JOB_CANCELLED] Job 3 cancelled part of cancelled job group g SQLSTATE: XXKDA",
        ),
        ("plain", "plain"),
    ],
)
def test_only_lines_that_tell_something_are_kept(text: str, summary: str) -> None:
    assert summarize(text) == summary
    assert describe(RuntimeError(text)) == (summary, False)


def test_a_summary_has_limits() -> None:
    lines = summarize("\n".join(["y" * 10_000] * 1000)).split("\n")
    assert len(lines) == MAX_LINES
    assert {len(line) for line in lines} == {MAX_LINE_LENGTH}


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        ("ModuleNotFoundError: No module named 'snapline'", "install snapline with its dependencies and extras where"),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has",
            "name a Python of the driver's version",
        ),
        (
            'java.io.IOException: Cannot run program "python9": error=2, No such file or directory',
            "name a Python that the executors have",
        ),
    ],
)
def test_a_wrong_interpreter_is_fatal_and_one_line_says_what_to_set(cause: str, advice: str) -> None:
    is_python = not cause.startswith("java")
    message, is_fatal = describe(RuntimeError(f"{BEGIN}{TRACEBACK if is_python else ''}{cause}\n{STACK}"))
    assert is_fatal
    assert message.startswith(
        f"{cause.removeprefix('pyspark.errors.exceptions.base.').removeprefix('java.io.')}; {advice}"
    )
    assert "\n" not in message
    assert "PYSPARK_PYTHON" in message
    assert "spark.pyspark.python" in message


def test_the_end_of_spark_is_fatal() -> None:
    for text in (
        f"{BEGIN}: org.apache.spark.SparkException: Job 5 cancelled because SparkContext was shut down\n{STACK}",
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped ...",
    ):
        message, is_fatal = describe(RuntimeError(text))
        assert is_fatal
        assert message.startswith("Spark was stopped")


def test_an_error_without_text_has_at_least_a_name() -> None:
    assert describe(KeyboardInterrupt()) == ("KeyboardInterrupt", False)
