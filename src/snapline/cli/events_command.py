"""`snapline events`: what has happened to a job."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

from snapline.cli.job_lookup import RunningJob, add_job, find_job, has_ended
from snapline.cli.terminal_output import moment, print_json, say
from snapline.cli.usage import Commands, UnreachableError, add_command, add_json

POLL_S = 1.0

_DESCRIPTION = """\
Show the latest events of a job, oldest first: status, attempts, failures, checkpoints.

With --follow it goes on with those that come, until the job has ended or Ctrl-C; with --json as well, each event is one
line of JSON."""


def add_events(commands: Commands) -> None:
    parser = add_command(
        commands,
        "events",
        _events,
        help="show what has happened to a job",
        description=_DESCRIPTION,
        examples=("snapline events clicks", "snapline events clicks --follow", "snapline events clicks --json"),
    )
    add_job(parser)
    parser.add_argument("--follow", "-f", action="store_true", help="show those that come as well")
    add_json(parser)


def _events(options: argparse.Namespace) -> int:
    job = find_job(options)
    if not options.follow:
        events = _ask(job, None)
        if options.json:
            print_json({"events": events})
        else:
            for event in events:
                _say(event)
        return 0
    for event in followed(job):
        print_json(event, indent=None) if options.json else _say(event)
        sys.stdout.flush()  # somebody may be reading along
    return 0


def followed(job: RunningJob) -> Iterator[dict[str, Any]]:
    """The events so far, and those that come until the job has ended."""
    last_ms, seen = -1, 0
    while True:
        try:
            is_last = has_ended(job.client.get(job.path).get("status"))
            events = _ask(job, None if last_ms < 0 else last_ms - 1)
        except UnreachableError:
            if last_ms < 0:
                raise
            return  # the driver has ended with its job
        # Several may have happened within the last millisecond, some of which are shown already.
        fresh = [event for event in events if event["at_ms"] >= last_ms]
        known = seen if last_ms >= 0 else 0
        yield from fresh[known:]
        if fresh:
            last_ms = fresh[-1]["at_ms"]
            seen = sum(event["at_ms"] == last_ms for event in fresh)
        if is_last:
            return
        time.sleep(POLL_S)


def _ask(job: RunningJob, after_ms: int | None) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = job.client.get(f"{job.path}/events", after=after_ms)["events"]
    return sorted(events, key=lambda event: event["at_ms"])


def _say(event: dict[str, Any]) -> None:
    say(f"{moment(event['at_ms'])}  {event['text']}")
