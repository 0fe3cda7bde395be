"""Programs that are forks of one interpreter behave as if each had one of its own."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapline.devtools.kit.forked_programs import ForkServer
from snapline.devtools.kit.processes import look

WITHIN_S = 60.0

TELL = """
import json, os, sys, warnings
warnings.warn("once", DeprecationWarning)
import mine
print(json.dumps([sys.argv, os.getcwd(), dict(os.environ), mine.NAME, sys.modules["__main__"].TELLING, os.getpid()]))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(["json"]) as server:
        yield server


def test_it_has_arguments_environment_directory_and_modules_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("NAME = 'mine'\n")
    environment = {"PYTHONPATH": str(tmp_path), "LANGUAGE": "plain"}
    directory = tmp_path / "work"
    directory.mkdir()
    program = server.start(
        ["-c", f"TELLING = 7\n{TELL}", "one", "two words"], environment=environment, directory=str(directory)
    )
    out, err = program.communicate(WITHIN_S)
    assert program.returncode == 0, err
    told = [["-c", "one", "two words"], str(directory), environment, "mine", 7, program.pid]
    assert json.loads(out) == told


def test_a_warning_is_an_error_where_the_environment_says_so(server: ForkServer) -> None:
    program = server.start(["-c", "import warnings; warnings.warn('no')"], environment={"PYTHONWARNINGS": "error"})
    out, err = program.communicate(WITHIN_S)
    assert (program.returncode, out) == (1, "")
    assert err.endswith("UserWarning: no\n")


@pytest.mark.parametrize(
    ("code", "ends_with"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("raise ValueError", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM); signal.pause()", -signal.SIGTERM),
        ("import threading, sys, os; threading.Thread(target=lambda: print('last')).start()", 0),
        ("import atexit, os; atexit.register(os._exit, 9)", 9),
    ],
)
def test_it_ends_as_an_interpreter_does(server: ForkServer, code: str, ends_with: int) -> None:
    program = server.start(["-c", code])
    out, _ = program.communicate(WITHIN_S)
    assert program.returncode == program.poll() == ends_with
    assert out == ("last\n" if "last" in code else "")


def test_a_module_runs_as_the_main_program(server: ForkServer) -> None:
    program = server.start(["-m", "json.tool", "--compact"])
    program.stdin.write('{"a": 1}')
    program.stdin.close()
    assert program.communicate(WITHIN_S) == ('{"a":1}\n', "")


def test_an_interrupt_reaches_it_and_a_kill_ends_it(server: ForkServer) -> None:
    code = """
try:
    print("ready")
    input()
except KeyboardInterrupt:
    print("interrupted")
    input()
"""
    with server.start(["-c", code]) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        assert program.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0)
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == "interrupted\n"
    assert program.returncode == -signal.SIGKILL
    program.send_signal(signal.SIGKILL)  # it has ended: no other process with its number is hit


def test_what_takes_too_long_is_killed(server: ForkServer) -> None:
    program = server.start(["-c", "input()"])
    with pytest.raises(subprocess.TimeoutExpired):
        program.communicate(0.01)
    assert program.returncode == -signal.SIGKILL
    program.close()


def test_a_file_takes_all_that_is_printed(server: ForkServer, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        program = server.start(["-c", "import sys; print('good'); sys.exit('bad')"], output=log)
    assert program.communicate(WITHIN_S) == ("", "")
    assert program.returncode == 1
    assert (tmp_path / "log").read_text() == "good\nbad\n"


def test_a_file_takes_its_errors_only(server: ForkServer, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        program = server.start(["-c", "import sys; print('good'); sys.exit('bad')"], errors=log)
    assert program.communicate(WITHIN_S) == ("good\n", "")
    assert (tmp_path / "log").read_text() == "bad\n"


def test_its_end_is_the_end_of_its_programs() -> None:
    with ForkServer([]) as server:
        programs = [server.start(["-c", "print('ready'); input()"]) for _ in range(2)]
        for program in programs:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert look(program.pid) is None
        assert program.wait(0) == -signal.SIGKILL
        program.close()
