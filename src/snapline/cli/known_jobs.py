"""Running jobs that have left their address: of this user on this machine, or beside their checkpoints."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from snapline.cli.job_url import ServerUrl, same_job
from snapline.cli.rest_client import LOOK_TIMEOUT_S, TIMEOUT_S, RefusedConnectionError, RestClient
from snapline.cli.usage import UnreachableError, UsageError
from snapline.errors import ObjectNotFoundError, SnaplineError
from snapline.runtime.master.job_address import (
    MAX_ADDRESS_BYTES,
    JobAddress,
    jobs_directory,
    stored_address,
)
from snapline.storage.objects.object_store import ObjectStore
from snapline.web.token_files import tokens_directory

MAX_LOOKS = 16
"""Servers that are asked at a time."""

MAX_TOKEN_BYTES = 64 << 10

_ADDRESS = "monitor/address.json"


@dataclass(frozen=True, slots=True)
class Found:
    """An address that somebody has left. `entry` is its file in the user's home, if it is from there."""

    address: JobAddress
    entry: Path | None = None

    @property
    def is_here(self) -> bool:
        """Whether the driver was on this machine."""
        return self.address.host == socket.gethostname()


@dataclass(frozen=True, slots=True)
class KnownJob:
    """An address, and what its server says about the job: `row` of `GET /snapline/jobs`, or why there is none.

    `is_gone` says that the driver has ended without removing the address: it was killed.
    """

    found: Found
    row: dict[str, Any] | None
    problem: str = ""
    is_gone: bool = False

    @property
    def address(self) -> JobAddress:
        return self.found.address


# Addresses.


def local_addresses() -> list[Found]:
    """The addresses in the user's home, by name. Files of others are left out: they could lead a token away."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted(jobs_directory().glob("*@*.json")):
            with suppress(FileNotFoundError):
                if path.is_symlink() or path.stat().st_uid != os.getuid() or path.stat().st_size > MAX_ADDRESS_BYTES:
                    continue
                if (address := _decoded(path.read_bytes())) is not None:
                    found.append(Found(address, path))
    return found


def addresses_in(objects: ObjectStore, path: str) -> list[Found]:
    """The addresses below the root of a storage, or in the directory of a job."""
    path = path.rstrip("/")
    found = [_read(objects, f"{path}/{_ADDRESS}")]
    if found == [None]:
        root, _, job_id = path.rpartition("/")
        names = [info.path.removeprefix(f"{path}/") for info in objects.list(path)]
        below = [name.split("/")[0] for name in names if name.endswith(f"/{_ADDRESS}") and name.count("/") == 2]
        found = [_read(objects, stored_address(path, name)) for name in below]
        # Where its address could not be written, the driver may have told the user's home.
        stored = {it.address.job_id for it in found if it is not None}
        for it in local_addresses():
            is_root = it.address.storage == path and it.address.job_id not in stored
            if is_root or (it.address.storage == root and it.address.job_id == job_id):
                found.append(it)
    return [it for it in found if it is not None]


def _read(objects: ObjectStore, path: str) -> Found | None:
    try:
        data = objects.read(path, 0, MAX_ADDRESS_BYTES + 1)
    except ObjectNotFoundError:
        return None
    address = _decoded(data)
    return None if address is None else Found(address)


def _decoded(data: bytes) -> JobAddress | None:
    address = JobAddress.decode(data)
    try:
        return None if address is None or not ServerUrl.parse(address.url) else address
    except UsageError:
        return None


# Tokens.


def token_of(found: Found) -> str | None:
    """The token that the address names, if any.

    Whoever can write into a storage could put an address there that names any file, and any URL to send it to. So for
    an address from a storage, only the file is read that a server has written for its port, in the user's home, and
    only if the URL is on this machine.
    """
    if found.address.token_file is None:
        return None
    path = Path(found.address.token_file)
    with suppress(OSError, UnicodeDecodeError):
        status = path.lstat() if found.entry is None else path.stat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_TOKEN_BYTES:
            is_own = status.st_uid == os.getuid() and status.st_mode & 0o077 == 0
            if found.entry is not None or (is_own and found.is_here and _is_for(path, found.address.url)):
                return path.read_text(encoding="utf-8").strip() or None
    return None


def _is_for(token_file: Path, url: str) -> bool:
    """Whether a server on this machine, at the port that the file is for, is the one that the URL names."""
    parts = urlsplit(url)
    if token_file.parent != tokens_directory() or token_file.name.rpartition("-")[2] != str(parts.port):
        return False
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(parts.hostname, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as own:
                own.bind(address)  # works for addresses of this machine only
    except OSError:
        return False
    return True


# Who is alive.


def look(found: Iterable[Found], given: str | None) -> list[KnownJob]:
    """Ask the servers of all addresses about their jobs, each server once. `given` is a token from the user.

    Removes what killed drivers have left in the user's home.
    """
    asked = [(it, (ServerUrl.parse(it.address.url).base, given or token_of(it))) for it in found]
    servers = list({server for _, server in asked})
    with ThreadPoolExecutor(MAX_LOOKS, "snapline-look") as pool:
        answers = dict(zip(servers, pool.map(lambda server: _jobs_at(*server), servers), strict=True))
    known = _without_predecessors([_known(it, answers[server]) for it, server in asked])
    for job in known:
        if job.is_gone and job.found.entry is not None:
            job.found.entry.unlink(missing_ok=True)
    return known


def _jobs_at(base: str, token: str | None) -> Sequence[dict[str, Any]] | SnaplineError:
    try:
        return jobs_at(RestClient(base, token), timeout_s=LOOK_TIMEOUT_S)
    except SnaplineError as error:
        return error


def jobs_at(client: RestClient, *, timeout_s: float = TIMEOUT_S) -> list[dict[str, Any]]:
    """The jobs of a server, one row each."""
    try:
        return [dict(job) for job in client.get("/snapline/jobs", timeout_s=timeout_s)["jobs"]]
    except (KeyError, TypeError, ValueError):
        raise UnreachableError(f"what listens at {client.base} is no Snapline job") from None


def _known(found: Found, answer: Sequence[dict[str, Any]] | SnaplineError) -> KnownJob:
    address = found.address
    driver = f"its driver (process {address.pid} on {address.host})"
    if not isinstance(answer, SnaplineError):
        row = next((row for row in answer if same_job(row, address.job_id)), None)
        if row is not None:
            return KnownJob(found, row)
        return KnownJob(found, None, f"{driver} is gone, and {address.url} serves other jobs", is_gone=found.is_here)
    if not found.is_here:
        elsewhere = f"{driver} may listen on its own machine only: run the command there, or set Monitoring(host=...)"
        return KnownJob(found, None, f"{answer}; {elsewhere}")
    if not _is_alive(address.pid):
        return KnownJob(found, None, f"{driver} is gone: it was killed", is_gone=True)
    if isinstance(answer, RefusedConnectionError):
        return KnownJob(found, None, f"{driver} does not listen at {address.url} any more", is_gone=True)
    return KnownJob(found, None, str(answer))


def _without_predecessors(known: Sequence[KnownJob]) -> list[KnownJob]:
    """A driver that was killed leaves an address at which its successor may listen: only the successor runs the job."""

    def key(job: KnownJob) -> tuple[str, str]:
        return ServerUrl.parse(job.address.url).base, job.address.job_id

    newest: dict[tuple[str, str], KnownJob] = {}
    for job in known:
        if job.row is not None and job.address.started_ms >= newest.get(key(job), job).address.started_ms:
            newest[key(job)] = job
    return [
        replace(job, row=None, problem="another driver has taken its place", is_gone=job.found.is_here)
        if job.row is not None and newest[key(job)] is not job and job.address.pid != newest[key(job)].address.pid
        else job
        for job in known
    ]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # One that was killed may be waiting for its parent to notice.
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    return True
