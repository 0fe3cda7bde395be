"""`snapline dispose`: delete a savepoint."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from snapline.cli.job_lookup import JOB_HELP, RunningJob, add_access, find_job
from snapline.cli.storage_access import open_store, whole_path
from snapline.cli.terminal_output import print_json, printable, say
from snapline.cli.usage import FAILED, OK, Commands, OperationError, UsageError, add_command, add_json
from snapline.storage.objects.object_store import ObjectStore
from snapline.text import size_text

if TYPE_CHECKING:
    from snapline.protocol.snapshot import Snapshot

POLL_S = 0.2

_DESCRIPTION = """\
Delete a savepoint: its metadata, its files and its directory, and nothing else. Jobs that were started from it, or that
hold it as their last recovery point, must not need it any more; jobs delete their checkpoints themselves.

It is deleted from here, without any job; with --job it is deleted by the driver of a running job, with the credentials
that the job has, and only if it is in one of the job's directories."""


def add_dispose(commands: Commands) -> None:
    parser = add_command(
        commands,
        "dispose",
        _dispose,
        help="delete a savepoint",
        description=_DESCRIPTION,
        examples=(
            "snapline dispose /data/savepoints/savepoint-clicks-01ab23cd45ef",
            "snapline dispose s3://bucket/savepoints/savepoint-clicks-01ab23cd45ef --yes",
            "snapline dispose s3://bucket/savepoints/savepoint-clicks-01ab23cd45ef --job clicks",
        ),
    )
    parser.add_argument("path", metavar="PATH", help="the directory of a savepoint, or its _metadata")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--job", metavar="JOB", help=f"let a running job delete it: {JOB_HELP}")
    add_json(parser)
    add_access(parser)


def _dispose(options: argparse.Namespace) -> int:
    path = whole_path(options.path)
    if options.job is not None:
        job = find_job(options)
        if not _is_confirmed(f"Let {job.name} delete the savepoint {path}?", options):
            return FAILED
        _ask_to_dispose(job, path)
        document: dict[str, Any] = {"path": path, "job_id": job.job_id}
    else:
        # Imported here because commands for running jobs do not need it.
        from snapline.storage.savepoint_disposal import dispose_savepoint

        objects = open_store(options.s3)
        found = _savepoint(objects, path)
        if not _is_confirmed(_question(found), options):
            return FAILED
        dispose_savepoint(objects, path)
        document = {
            "path": found.location,
            "id": found.id,
            "timestamp_ms": found.timestamp_ms,
        }
    print_json(document) if options.json else say(f"deleted {document['path']}")
    return OK


def _savepoint(objects: ObjectStore, path: str) -> Snapshot:
    from snapline.protocol.snapshot import Snapshot
    from snapline.state.inspection.job_directory import inspect_path

    found = inspect_path(objects, path)
    if not isinstance(found, Snapshot):
        raise UsageError(f"{found.location} is the directory of a job, no savepoint; nothing was deleted")
    if not found.kind.is_savepoint:
        raise UsageError(
            f"{found.location} is checkpoint {found.id}, no savepoint; the job deletes its checkpoints itself"
        )
    return found


def _question(found: Snapshot) -> str:
    items = {item.path: item.size_bytes for item in found.objects() if not item.is_inline}
    size = size_text(sum(items.values()))
    return f"Delete savepoint {found.id} in {found.location} ({size} in {len(items)} files)?"


def _is_confirmed(question: str, options: argparse.Namespace) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("dispose asks before it deletes, and nobody is here to answer; say --yes")
    sys.stderr.write(f"{printable(question)} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    sys.stderr.write("nothing was deleted\n")
    return False


def _ask_to_dispose(job: RunningJob, path: str) -> None:
    """As Flink's clients do: the interface has no call of our own for it."""
    request_id = str(job.client.post("/savepoint-disposal", {"savepoint-path": path})["request-id"])
    while True:
        answer = job.client.get(f"/savepoint-disposal/{quote(request_id, safe='')}")
        if answer["status"]["id"] != "IN_PROGRESS":
            break
        time.sleep(POLL_S)
    if cause := (answer.get("operation") or {}).get("failure-cause"):
        text = cause.get("stack-trace") or cause.get("class") if isinstance(cause, dict) else str(cause)
        raise OperationError(f"{path} was not deleted: {text}")
