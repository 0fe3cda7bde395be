"""`snapline demo`: a job that survives kill -9."""

from __future__ import annotations

import argparse

from snapline.cli.usage import Commands, add_command, count

_DESCRIPTION = """\
Show Snapline at work, on a Spark that the demo starts on this machine: clicks come in, a job counts them per user and
writes the results to files. The demo kills processes of the job with kill -9, shows how it recovers, and proves at the
end that no event was lost or counted twice. It takes about a minute, and needs Java 17 or newer."""


def add_demo(commands: Commands) -> None:
    demo = add_command(
        commands, "demo", _demo, help="watch a job survive kill -9 on this machine", description=_DESCRIPTION
    )
    demo.add_argument("--duration", metavar="TIME", help="how long clicks come in (default 40s)")
    demo.add_argument("--rows-per-second", metavar="N", type=count, help="how many clicks (default 20000)")
    demo.add_argument("--parallelism", metavar="N", type=count, help="how many slots (default 2)")
    demo.add_argument("--no-kill", dest="kill", action="store_false", help="kill nothing")
    demo.add_argument("--keep", metavar="DIR", help="keep output, checkpoints and logs in this new directory")


def _demo(options: argparse.Namespace) -> int:
    # Imported here because it loads far more than anything else.
    from snapline.demo.run import DemoOptions, run_demo

    names = ("duration", "rows_per_second", "parallelism", "kill", "keep")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return run_demo(DemoOptions(**given))
