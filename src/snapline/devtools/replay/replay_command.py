"""Command line of the replay tool: one script per line in, one outcome per line out."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from snapline.devtools.replay.replay_barriers import replay_barriers
from snapline.devtools.replay.replay_placement import replay_assign, replay_keygroups, replay_plan
from snapline.devtools.replay.replay_policies import replay_decider, replay_failures, replay_retention, replay_shared
from snapline.devtools.replay.script_fields import NOTES, NotUnderstoodError, shown
from snapline.errors import SnaplineError

KINDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "barriers": replay_barriers,
    "decider": replay_decider,
    "failures": replay_failures,
    "plan": replay_plan,
    "keygroups": replay_keygroups,
    "assign": replay_assign,
    "retention": replay_retention,
    "shared": replay_shared,
}
"""Functions from a script to its outcome, without the id. They raise `SnaplineError` for a script they cannot read."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "barriers": ('{"id": "x", "handler": "alternating", "channels": 2, "events": ["B1@0", "d@1", "t=101", "B1@1"]}',),
    "decider": ('{"id": "x", "steps": [{"request": {"name": "r1"}, "triggering": true}, {"poll": true}]}',),
    "failures": ('{"id": "x", "tolerable": 0, "events": [{"fail": 1, "reason": "IO_EXCEPTION"}, {"complete": 2}]}',),
    "plan": (
        '{"id": "x", "vertices": [{"id": "a", "parallelism": 2, "finished": [0]}, {"id": "b", "parallelism": 2}], '
        '"edges": [["a", "b", "pointwise"]]}',
    ),
    "keygroups": ('{"id": "x", "max_parallelism": 128, "parallelism": 3}', '{"id": "x", "default_for": [1, 85]}'),
    "assign": (
        '{"id": "x", "mode": "split", "states": {"s": [[1, 2, 3], null]}, "to": 3}',
        '{"id": "x", "mapper": "range", "from": 3, "to": 2}',
    ),
    "retention": ('{"id": "x", "retain": 1, "added": ["c1", "c2", "s3"]}',),
    "shared": ('{"id": "x", "steps": [{"register": "a", "by": 1}, {"unregister_unused": 2}]}',),
}
"""Example lines of each kind, for `--help`."""

_EVENTS = """\
The events of barriers, on channel c, with checkpoint n:
  d@c      a data buffer is read
  Bn@c     a barrier is read, of the handler's own kind (alternating: T) or of the kind named by a suffix:
           A aligned without timeout, T aligned with timeout, U unaligned
  Xn@c     a cancel marker is read
  E@c      the end of the partition is read
  An@c     announcement: a barrier of kind T has arrived behind data that is still unread
  t=ms     the clock, which starts at 0, moves to ms and timers that are due fire
  t~ms     the clock moves to ms, timers do not fire
  timers   timers that are due fire"""


def answer(kind: str, line: str | bytes) -> str:
    """Answer one line: the outcome, or an error that says what is wrong with the script."""
    identity: object = None
    try:
        script = _parse(line)
        identity = _identity(script)
        return json.dumps({"id": identity, **KINDS[kind](script)})
    except SnaplineError as error:
        return json.dumps({"id": identity, "error": str(error)})
    except RecursionError:
        return json.dumps({"id": identity, "error": "the line is nested too deeply; use fewer brackets"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer standard input line by line until it ends. Returns the exit status."""
    kind: str = _parser().parse_args(arguments).kind
    try:
        _answer_all(kind, sys.stdin.buffer, sys.stdout)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The interpreter flushes standard output once more when it ends, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _answer_all(kind: str, lines: Iterable[bytes], out: TextIO) -> None:
    for line in lines:
        if line.strip():
            print(answer(kind, line), file=out, flush=True)


def _parser() -> argparse.ArgumentParser:
    examples = "\n".join(f"  {kind}\n" + "\n".join(f"    {line}" for line in EXAMPLES[kind]) for kind in KINDS)
    parser = argparse.ArgumentParser(
        prog="python -m snapline.testing.replay",
        description=(
            "Drive the machines of snapline.protocol with scripts. Reads one JSON object per line from standard input "
            "and prints one per line, with the same id: the outcome, or an error that says what is wrong. "
            f"A script may carry notes, which are ignored: {', '.join(sorted(NOTES))}."
        ),
        epilog=f"Lines of each kind:\n{examples}\n\n{_EVENTS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=tuple(KINDS), help="what the lines are scripts for")
    return parser


def _parse(line: str | bytes) -> dict[str, Any]:
    try:
        script = json.loads(line, parse_constant=_no_number, parse_float=_finite)
    except ValueError as error:
        raise NotUnderstoodError(f"the line is not JSON ({error}); use one JSON object per line") from error
    if not isinstance(script, dict):
        raise NotUnderstoodError(f"the line is {shown(script)}; use a JSON object")
    return script


def _identity(script: dict[str, Any]) -> str | int | float | None:
    identity = script.get("id")
    if isinstance(identity, str | int | float | None) and not isinstance(identity, bool):
        return identity
    raise NotUnderstoodError(f"id is {shown(identity)}; use a string or a number")


def _no_number(constant: str) -> object:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large")
    return number
