"""Whether a job survives everything: `python -m benchmarks.soak --minutes 20 [--json]`.

A job with windows, a join, timers and two-phase sinks runs on a standalone Spark cluster, two workers on hosts of their
own (network namespaces, where the machine allows them), while processes are killed and stopped, links go down, the disk
fills up, clocks jump and strangers connect and say nothing. At the end every output is compared with what it must be,
and what the job uses with what it used at the start. Exits with 1 if anything is lost, doubled, leaked or left behind.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from types import FrameType

from benchmarks.soak.soak_run import LEAST_MINUTES, run

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=20.0, help=f"how long it takes in all, at least {LEAST_MINUTES:g} (20)"
    )
    parser.add_argument("--seed", type=int, default=0, help="decides what happens in which order (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="do not tell on standard error what happens")
    options = parser.parse_args(arguments)
    if not options.minutes >= LEAST_MINUTES:
        parser.error(f"--minutes {options.minutes:g}: use at least {LEAST_MINUTES:g}")
    # Everything is cleared away in both cases.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        result = run(options.minutes, options.seed, _be_silent if options.quiet else _say)
    except KeyboardInterrupt:
        print("interrupted; everything was stopped", file=sys.stderr)
        return INTERRUPTED
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name}: {value}")
    return 1 if result["problems"] else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    for each in (signal.SIGINT, signal.SIGTERM):  # clearing away takes some seconds, and is not to be interrupted
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _be_silent(text: str) -> None:
    del text


if __name__ == "__main__":
    sys.exit(main())
