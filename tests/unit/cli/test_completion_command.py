"""`snapline completion`: shells really complete."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.cli.cli_kit import Terminal


@pytest.fixture
def home_with_jobs(home: Path) -> Path:
    (home / "jobs").mkdir(parents=True)
    for name in ("clicks@12", "clicks-2@13", "orders@14"):
        (home / "jobs" / f"{name}.json").touch()
    return home


def completed(terminal: Terminal, words: str, directory: Path) -> list[str]:
    """What bash offers at the end of these words."""
    assert terminal.run("completion", "bash") == 0
    script = f"""{terminal.out}
    COMP_LINE={words!r} COMP_POINT=${{#COMP_LINE}}
    read -r -a COMP_WORDS <<< "$COMP_LINE"
    [[ "$COMP_LINE" == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
    _snapline
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True, timeout=30, cwd=directory
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.usefixtures("home_with_jobs")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("snapline check", ["checkpoints", "checkpoint"]),
        ("snapline status --ch", ["--check"]),
        ("snapline status cl", ["clicks", "clicks-2"]),
        ("snapline status orders --t", ["--token-file"]),
        ("snapline status da", ["data"]),
        ("snapline savepoint orders da", ["data"]),
        ("snapline savepoint --format native orders da", ["data"]),
        ("snapline savepoint orders --format ", ["canonical", "native"]),
        ("snapline dispose data --job or", ["orders"]),
        ("snapline completion ", ["bash", "fish", "zsh"]),
        ("snapline run --mas", ["--master"]),
        ("snapline run --py-files he", ["helper.py"]),
        ("snapline run --master local[2] he", ["helper.py"]),
        ("snapline run helper.py --mas", []),
        ("snapline run helper.py da", ["data"]),
        ("snapline nonsense ", []),
    ],
)
def test_bash_completes(terminal: Terminal, tmp_path: Path, words: str, offered: list[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "helper.py").touch()
    assert sorted(completed(terminal, words, tmp_path)) == sorted(offered)


def test_every_command_is_offered(terminal: Terminal, tmp_path: Path) -> None:
    offered = completed(terminal, "snapline ", tmp_path)
    assert {"run", "list", "status", "checkpoints", "checkpoint", "savepoint", "stop", "cancel"} < set(offered)
    assert {"events", "inspect", "dispose", "ui", "completion", "demo"} < set(offered)


def _typed(shell: list[str], lines: list[str], keys: str, expected: str, home: Path) -> str:
    """What an interactive shell shows once `expected` has appeared, or after a while."""
    pid, screen = pty.fork()
    if pid == 0:
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": str(home), "SNAPLINE_HOME": str(home)}
        os.execvpe(shell[0], shell, environment)
    shown = ""
    try:
        os.write(screen, ("\n".join(lines) + "\n").encode())
        deadline_s = time.monotonic() + 30
        while "READY" not in shown.replace("echo READY", "") and time.monotonic() < deadline_s:
            shown += _read(screen)
        shown = ""
        os.write(screen, keys.encode())
        while expected not in shown and time.monotonic() < deadline_s:
            shown += _read(screen)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(screen)
    return shown


def _read(screen: int) -> str:
    ready, _, _ = select.select([screen], [], [], 0.2)
    return os.read(screen, 65536).decode("utf-8", "replace") if ready else ""


def _script(shell: str, directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"_snapline.{shell}"
    with path.open("wb") as file:
        subprocess.run([sys.executable, "-m", "snapline", "completion", shell], stdout=file, check=True, timeout=60)
    return path


@pytest.mark.slow
def test_an_interactive_bash(home_with_jobs: Path, tmp_path: Path) -> None:
    script = _script("bash", tmp_path / "scripts")
    lines = [f"source {script}", "PS1=; echo READY"]
    shown = _typed(["bash", "--norc", "-i"], lines, "snapline sta\tor\t--che\t", "--check", home_with_jobs)
    assert "snapline status orders --check" in shown


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_an_interactive_zsh(home_with_jobs: Path, tmp_path: Path) -> None:
    script = _script("zsh", tmp_path / "scripts")
    lines = ["autoload -U compinit && compinit -u -D", f"source {script}", "PS1=; echo READY"]
    shown = _typed(["zsh", "-f", "-i"], lines, "snapline sta\tor\t--che\t", "--check", home_with_jobs)
    assert "--check" in shown


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(home_with_jobs: Path, tmp_path: Path) -> None:
    script = _script("fish", tmp_path / "scripts")
    environment = {**os.environ, "HOME": str(home_with_jobs)}

    def offered(words: str) -> set[str]:
        command = f'source {script}; complete -C "{words}"'
        done = subprocess.run(
            ["fish", "-c", command], capture_output=True, text=True, check=True, timeout=30, env=environment
        )
        return {line.partition("\t")[0] for line in done.stdout.splitlines()}

    assert {"status", "stop"} <= offered("snapline st")
    assert offered("snapline status --ch") == {"--check"}
    assert offered("snapline status or") == {"orders"}
    assert offered("snapline savepoint clicks --format ") >= {"native", "canonical"}
