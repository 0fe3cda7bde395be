"""Exit codes, and that nothing but a defect shows a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.unit.cli.cli_kit import Terminal

from snapline import cli
from snapline.api.job_handle import JobFailedError
from snapline.cli import entry
from snapline.cli.usage import OperationError, UnreachableError, UsageError
from snapline.errors import StorageError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OperationError("x"), 1),
        (JobFailedError("x", trace="its traceback\n"), 1),
        (UsageError("x"), 2),
        (StorageError("x"), 2),
        (UnreachableError("x"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(entry, "make_parser", fail)
    assert terminal.run() == code
    trace = "its traceback\n" if isinstance(error, JobFailedError) else ""
    assert terminal.err == ("" if code == 130 else f"snapline: x\n{trace}")


def test_help_says_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    assert "  3    the job cannot be reached, or no such job is running\n" in capsys.readouterr().out


def test_commands_for_running_jobs_load_neither_arrow_nor_spark() -> None:
    code = (
        "import sys\nfrom snapline.cli import main\nmain(['list'])\n"
        "print([name for name in ('pyarrow', 'pyspark', 'numpy', 'starlette') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=dict(os.environ)
    )
    assert done.stdout.splitlines() == ["No jobs are running.", "[]"]
