"""Runs the peers' scripts, each in its own process with the interpreter that has the peer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.entries import INSTALL

TIMEOUT_S = 900.0
ROOT = Path(__file__).resolve().parents[2]
_SHOWN = 2000


class PeerError(Exception):
    """A peer's script failed; the message has its last output."""


def run(python: str, module: str, arguments: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Returns what a script printed last. Raises `PeerError` if it fails or takes too long."""
    command = [python, "-m", module, *arguments]
    # -m looks for modules in the current directory first
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"{' '.join(command)} takes more than {timeout_s:.0f} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = (done.stderr or done.stdout).strip()[-_SHOWN:]
        raise PeerError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def missing(peer: str, modules: Sequence[str], python: str) -> str | None:
    """Returns why a peer can't run and how to fix that, or None if all its modules are installed."""
    advice = f"{INSTALL[peer]}, in this or another environment, which --peer-python {peer}=PATH/bin/python names"
    finder = (
        "import importlib.util as u, json, sys\n"
        "def there(name):\n"
        "    try:\n"
        "        return u.find_spec(name) is not None\n"
        "    except ModuleNotFoundError:\n"
        "        return False\n"
        "print(json.dumps([name for name in sys.argv[1:] if not there(name)]))"
    )
    try:
        done = subprocess.run(
            [python, "-c", finder, *modules], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{peer}: {python} cannot be run: {error}; {advice}"
    gone = json.loads(done.stdout)
    if not gone:
        return None
    return f"{peer}: {python} has no {', '.join(gone)}; {advice}"


def interpreters(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the interpreter of each peer: the named one, or this one."""
    return {peer: given.get(peer, sys.executable) for peer in INSTALL}
