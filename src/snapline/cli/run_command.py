"""`snapline run`: a program, or a file that only defines a job."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from snapline.cli.submit_options import add_submit_options, apply_submit_options
from snapline.cli.usage import FAILED, OK, Commands, UsageError, add_command

_DESCRIPTION = """\
Run a program like `python SCRIPT ARG...`, and show the progress of every job that it starts, in one line on standard
error: rows per second, event time and the last checkpoint. job.run(spark, progress=True) shows the same for one job.

A SCRIPT that only defines one sl.Job at its top level, and starts none, is enough: its job is run on Spark on this
machine (local[*]), or as the options say. Ctrl-C suspends it; run again, it goes on from its last checkpoint.

Options before SCRIPT are those of spark-submit, for every Spark that the program starts. The program is the driver
(deploy mode client). A master that the program sets itself wins over --master."""


def add_run(commands: Commands) -> None:
    parser = add_command(
        commands,
        "run",
        _run,
        help="run a program, or a job file, and show the progress of its jobs",
        description=_DESCRIPTION,
        examples=(
            "snapline run clicks.py",
            "snapline run --master local[4] clicks.py --fast",
            "snapline run --master spark://host:7077 --executor-memory 2g --py-files helper.py clicks.py",
            "snapline run --conf spark.snapline.checkpoints.interval=500ms clicks.py",
        ),
        allow_abbrev=False,
    )
    parser.add_argument("script", metavar="SCRIPT", help="a Python program that starts jobs, or defines one")
    parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER, help="arguments of the program")
    add_submit_options(parser)


def _run(options: argparse.Namespace) -> int:
    # Imported here because other commands need none of it.
    from snapline.api.live_line import has_started, show_always
    from snapline.cli.job_file import jobs_defined, run_on_spark

    if not os.path.isfile(options.script):
        raise UsageError(f"there is no file {options.script!r}; see snapline run --help")
    if options.submit:
        apply_submit_options(options.submit)
    show_always()
    sys.argv = [options.script, *options.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    names = runpy.run_path(options.script, run_name="__main__")
    defined = jobs_defined(names)
    if has_started() or not defined:
        return OK
    if len(defined) > 1:
        several = ", ".join(job.name for job in defined)
        raise UsageError(
            f"{options.script} defines several jobs ({several}) and starts none; start them in the program"
        )
    status = run_on_spark(defined[0], names, options.submit)
    return OK if status.is_globally_terminal else FAILED
