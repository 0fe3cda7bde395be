"""Finds the running job that the user means: by URL, name, id, or storage path."""

from __future__ import annotations

import argparse
import os
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from snapline.cli.job_url import ServerUrl, same_job
from snapline.cli.known_jobs import (
    MAX_TOKEN_BYTES,
    Found,
    KnownJob,
    addresses_in,
    jobs_at,
    local_addresses,
    look,
    token_of,
)
from snapline.cli.rest_client import RestClient
from snapline.cli.storage_access import open_store, whole_path
from snapline.cli.usage import UnreachableError, UsageError, add_s3
from snapline.runtime.master.job_address import JobAddress
from snapline.types import JobStatus

JOB_HELP = "name or id of a job of yours on this machine, its URL, or the path of its storage"

TOKEN_VARIABLE = "SNAPLINE_TOKEN"  # noqa: S105  # the name of a variable

_JID = re.compile("[0-9a-f]{32}")
_ENDED = frozenset(status.value for status in JobStatus if status.is_globally_terminal or status is JobStatus.SUSPENDED)


class NoAddressError(UnreachableError):
    """No driver has left an address at a path."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job, and the server to ask about it. `row` is what the server said when the job was looked for."""

    client: RestClient
    row: Mapping[str, Any]
    address: JobAddress | None = None

    @property
    def job_id(self) -> str:
        return str(self.row["job_id"])

    @property
    def name(self) -> str:
        return str(self.row.get("name", self.job_id))

    @property
    def path(self) -> str:
        """The path of the job under the server's address."""
        return f"/snapline/jobs/{urllib.parse.quote(self.job_id, safe='')}"


def add_job(parser: argparse.ArgumentParser) -> None:
    """Declare the argument JOB, and the options about how to reach it."""
    parser.add_argument("job", metavar="JOB", help=JOB_HELP)
    add_access(parser)


def add_access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"the file that holds the token of the job's server (default: the variable {TOKEN_VARIABLE}, or what the "
        "job's address names)",
    )
    add_s3(parser)


def has_ended(status: object) -> bool:
    """Whether a job of this status is over for its driver."""
    return status in _ENDED


def given_token(options: argparse.Namespace) -> str | None:
    """The token that the user names, None if none. Never on the command line, where others can see it."""
    if options.token_file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        with open(options.token_file, encoding="utf-8") as file:
            token = file.read(MAX_TOKEN_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {options.token_file}: {error}") from None
    if not token or any(not letter.isprintable() for letter in token):
        raise UsageError(f"--token-file {options.token_file}: it holds no token of one line")
    return token


def find_job(options: argparse.Namespace) -> RunningJob:
    """The running job that `options.job` names.

    Raises `UnreachableError` if there is none, and `UsageError` if there are several.
    """
    text, token = options.job, given_token(options)
    if not text.strip():
        raise UsageError("JOB is empty; see snapline list for the jobs that are running")
    if text.startswith(("http://", "https://")):
        return _by_url(text, token)
    known = look(local_addresses(), token)
    if named := [job for job in known if text in (job.address.name, job.address.job_id) or _has_jid(job, text)]:
        return _only(text, named, token)
    if is_path(text):
        return _by_path(text, options.s3, token)
    raise UnreachableError(f"no job of yours on this machine is called {text!r}; {_running(known)}")


def is_path(text: str) -> bool:
    """Whether this can only be a path, or is one that exists."""
    return "/" in text or os.path.isdir(text)


def _has_jid(job: KnownJob, text: str) -> bool:
    return job.row is not None and same_job(job.row, text)


def _by_url(url: str, token: str | None) -> RunningJob:
    server = ServerUrl.parse(url)
    if token is None:
        token = next((token_of(it) for it in local_addresses() if _is_at(it, server)), None)
    client = RestClient(server.base, token)
    rows = jobs_at(client)
    for part in server.parts:
        if row := next((row for row in rows if same_job(row, part)), None):
            return RunningJob(client, row, _address_of(row, server))
    if any(_JID.fullmatch(part) or before in ("jobs", "job") for before, part in pairwise(("", *server.parts))):
        raise UnreachableError(f"{server.base} has no such job; it has {_list(rows) or 'none'}")
    running = [row for row in rows if not has_ended(row.get("status"))]
    if len(rows) == 1 or len(running) == 1:
        row = (running or rows)[0]
        return RunningJob(client, row, _address_of(row, server))
    if not rows:
        raise UnreachableError(f"{server.base} has no job")
    raise UsageError(f"{server.base} has several jobs; name one of them: {_list(running or rows)}")


def _is_at(found: Found, server: ServerUrl) -> bool:
    return ServerUrl.parse(found.address.url).base == server.base


def _address_of(row: Mapping[str, Any], server: ServerUrl) -> JobAddress | None:
    found = [it.address for it in local_addresses() if _is_at(it, server) and same_job(row, it.address.job_id)]
    return max(found, key=lambda address: address.started_ms, default=None)


def _by_path(text: str, s3: Sequence[str], token: str | None) -> RunningJob:
    path = whole_path(text)
    known = look(addresses_in(open_store(s3), path), token)
    if not known:
        raise NoAddressError(
            f"no running job has left its address in {path}; name the storage of a job, or its directory there. "
            f"`snapline ui {text}` shows what is stored of jobs that have ended"
        )
    return _only(text, known, token)


def _only(text: str, known: Sequence[KnownJob], token: str | None) -> RunningJob:
    """The one among them that runs."""
    alive = [job for job in known if job.row is not None]
    if len(alive) == 1:
        address = alive[0].address
        client = RestClient(ServerUrl.parse(address.url).base, token or token_of(alive[0].found))
        return RunningJob(client, alive[0].row or {}, address)
    if alive:
        raise UsageError(f"{text!r} can be several jobs; use the URL of one of them: {_list(_rows(alive))}")
    reasons = "; ".join(f"job {job.address.name!r}: {job.problem}" for job in known)
    if all(job.is_gone for job in known):
        raise UnreachableError(
            f"{text!r} is not running. {reasons}. Started again, it goes on from its last checkpoint"
        )
    for job in known:
        # For an error that says what to do, such as to give a token.
        jobs_at(RestClient(ServerUrl.parse(job.address.url).base, token or token_of(job.found)))
    raise UnreachableError(f"{text!r} cannot be reached. {reasons}")


def _rows(known: Iterable[KnownJob]) -> list[dict[str, Any]]:
    return [{**(job.row or {}), "url": job.address.url} for job in known]


def _running(known: Sequence[KnownJob]) -> str:
    alive = _list(_rows(job for job in known if job.row is not None))
    return f"running are: {alive}" if alive else "none is running"


def _list(rows: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(f"{row.get('name')} (id {row.get('job_id')}, {row.get('url')})" for row in rows)
