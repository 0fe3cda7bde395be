"""Replays small scripts against the real machines of `protocol/`: a debugging tool for people, and a test bench.

Run as `python -m snapline.testing.replay KIND`; `--help` shows a line of each kind. It holds no rules of its own:
whatever a script leads to is what the machines do.
"""

from snapline.testing.replay.command import EXAMPLES, KINDS, answer, main

__all__ = ["EXAMPLES", "KINDS", "answer", "main"]
