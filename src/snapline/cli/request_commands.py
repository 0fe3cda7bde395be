"""`snapline checkpoint`, `savepoint`, `stop`, `cancel`: what a running job can be asked for."""

from __future__ import annotations

import argparse
import dataclasses
import sys

from snapline.cli.job_lookup import RunningJob, add_job, find_job
from snapline.cli.operation_wait import Operation, await_operation
from snapline.cli.storage_access import whole_path
from snapline.cli.stored_end import stored_end
from snapline.cli.terminal_output import print_json, say
from snapline.cli.usage import Commands, OperationError, Parser, add_command, add_json
from snapline.config import duration_ms
from snapline.types import CheckpointScope, JobStatus, SavepointFormat

_ENDS = {"stop": JobStatus.FINISHED, "cancel": JobStatus.CANCELED}


def add_requests(commands: Commands) -> None:
    checkpoint = add_command(
        commands,
        "checkpoint",
        _checkpoint,
        help="take a checkpoint now",
        description="Take a checkpoint now, and print its path when it is complete.",
        examples=("snapline checkpoint clicks", "snapline checkpoint clicks --scope full"),
    )
    add_job(checkpoint)
    checkpoint.add_argument(
        "--scope",
        choices=[scope.value.lower() for scope in CheckpointScope],
        help="what it may reuse of older ones: as configured, nothing (full), or all it can (incremental)",
    )
    _add_waiting(checkpoint)

    savepoint = add_command(
        commands,
        "savepoint",
        _savepoint,
        help="take a savepoint",
        description="Take a savepoint of a running job in DIR, or in the directory that the job is configured with, "
        "and print its\npath when it is complete. The job goes on.",
        examples=(
            "snapline savepoint clicks",
            "snapline savepoint clicks /data/savepoints",
            "snapline savepoint clicks s3://bucket/savepoints --format native --timeout 5min",
        ),
    )
    add_job(savepoint)
    savepoint.add_argument("directory", metavar="DIR", nargs="?", help="where to, by a path that the driver can reach")
    _add_format(savepoint)
    _add_waiting(savepoint)

    stop = add_command(
        commands,
        "stop",
        _stop,
        help="end a job with a savepoint",
        description="End a job with a savepoint, and print the savepoint's path once the job has ended. Another job "
        "starts from it\nwith Checkpoints(restore_from=...).",
        examples=(
            "snapline stop clicks",
            "snapline stop clicks --savepoint /data/savepoints",
            "snapline stop clicks --drain    # the very last run: end the input, complete all windows",
        ),
    )
    add_job(stop)
    stop.add_argument(
        "--savepoint", metavar="DIR", help="where to (default: the directory that the job is configured with)"
    )
    stop.add_argument("--drain", action="store_true", help="first end the input and complete all windows")
    _add_format(stop)
    _add_waiting(stop)

    cancel = add_command(
        commands,
        "cancel",
        _cancel,
        help="end a job for good",
        description="End a job at once and for good, without a savepoint. Its checkpoints stay unless the job is "
        "configured otherwise.",
        examples=("snapline cancel clicks", "snapline cancel /data/checkpoints/clicks --no-wait"),
    )
    add_job(cancel)
    _add_waiting(cancel)


def _add_format(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        choices=[form.value.lower() for form in SavepointFormat],
        help="how keyed state is stored: independent of the backend (canonical), or as the backend's own files",
    )


def _add_waiting(parser: Parser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--no-wait", action="store_true", help="do not wait; print the id of the request")
    how.add_argument("--timeout", metavar="TIME", help="wait no longer than this, such as 5min; it goes on by itself")
    add_json(parser)


def _checkpoint(options: argparse.Namespace) -> int:
    job = find_job(options)
    body = {"scope": options.scope and options.scope.upper()}
    return _request(job, options, "checkpoint", body, f"the checkpoint of {job.name}")


def _savepoint(options: argparse.Namespace) -> int:
    job = find_job(options)
    body = {"directory": _directory(options.directory), "format": options.format and options.format.upper()}
    return _request(job, options, "savepoint", body, f"the savepoint of {job.name}")


def _stop(options: argparse.Namespace) -> int:
    job = find_job(options)
    body = {
        "directory": _directory(options.savepoint),
        "format": options.format and options.format.upper(),
        "drain": True if options.drain else None,
    }
    return _request(job, options, "stop", body, f"the stop of {job.name}")


def _cancel(options: argparse.Namespace) -> int:
    job = find_job(options)
    return _request(job, options, "cancel", {}, f"the end of {job.name}")


def _directory(given: str | None) -> str | None:
    return None if given is None else whole_path(given)


def _request(job: RunningJob, options: argparse.Namespace, what: str, body: dict[str, object], name: str) -> int:
    timeout_ms = None if options.timeout is None else duration_ms(options.timeout, setting="--timeout")
    request_id = str(job.client.post(f"{job.path}/{what}", body)["request_id"])
    if options.no_wait:
        print_json({"request_id": request_id, "status": "running"}) if options.json else say(request_id)
        return 0

    def lost() -> Operation | None:
        """A program may end with its job, before it has told how that went."""
        end = stored_end(job, options.s3)
        if end is None or end.status is not _ENDS.get(what) or (what == "stop" and end.savepoint is None):
            return None
        return Operation(request_id, what, "done", end.savepoint)

    operation = await_operation(job, request_id, name, timeout_ms=timeout_ms, lost=lost)
    if options.json:
        print_json(dataclasses.asdict(operation))
    if operation.status != "done":
        raise OperationError(f"{name} failed: {operation.error or 'the cause is not known'}")
    if not options.json:
        _tell(job, what, operation)
    return 0


def _tell(job: RunningJob, what: str, operation: Operation) -> None:
    """The path alone on standard output, for scripts."""
    if what in ("stop", "cancel"):
        sys.stderr.write(f"{job.name} is {'stopped' if what == 'stop' else 'cancelled'}\n")
    if operation.location:
        say(operation.location)
