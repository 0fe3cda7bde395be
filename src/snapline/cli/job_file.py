"""A file that defines a job, and leaves it to others to run it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from snapline.api.job import Job
from snapline.cli.submit_options import SubmitOption
from snapline.types import JobStatus


def jobs_defined(names: Mapping[str, Any]) -> list[Job]:
    """The jobs at the top level of a program, each once."""
    return list({id(value): value for value in names.values() if isinstance(value, Job)}.values())


def run_on_spark(job: Job, names: Mapping[str, Any], submit: Sequence[SubmitOption]) -> JobStatus:
    """Run a job in the foreground, on a Spark that is started for it: on this machine, unless options say where.

    `names` are those of the program that defines it, `submit` options that Spark is started with. Ctrl-C
    suspends the job, see `Job.run`.
    """
    from snapline.spark.own_session import own_session

    _share_modules(os.path.dirname(os.path.abspath(names.get("__file__", "."))))
    is_named = any(name == "--name" or str(value).startswith("spark.app.name=") for name, value in submit)
    name, master = None if is_named else job.name, None if submit else "local[*]"
    with as_main(names), own_session(name, master) as spark:
        return job.run(spark, progress=True)


def _share_modules(directory: str) -> None:
    """What is beside the program can be imported in Spark's workers on this machine too."""
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{directory}{os.pathsep}{before}" if before else directory


@contextmanager
def as_main(names: Mapping[str, Any]) -> Iterator[None]:
    """What is pickled of the program is looked up in `__main__`."""
    main = ModuleType("__main__")
    main.__dict__.update(names)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        yield
    finally:
        sys.modules["__main__"] = before
