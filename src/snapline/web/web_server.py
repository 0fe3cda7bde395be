"""The web servers of a program: one for each address, for all jobs of the program that have it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from snapline.config import Monitoring, Secret
from snapline.errors import SnaplineError
from snapline.web.listen_sockets import listening_socket, root_url
from snapline.web.monitored_job import MonitoredJob
from snapline.web.rest_ids import page_url
from snapline.web.security import Access
from snapline.web.server_thread import ServerThread
from snapline.web.token_files import new_token, remove_token, write_token

_log = logging.getLogger(__name__)

_Address: TypeAlias = tuple[str, str | None, Secret | None, bool]


@dataclass(frozen=True, slots=True)
class Served:
    """Where a job is served: the URL of its page, empty if it is not served.

    `token_file` is a file on this machine that holds the token which requests must carry; None if they need none, or
    if only whoever configured it knows it.
    """

    url: str = ""
    token_file: str | None = None


@dataclass(frozen=True, slots=True)
class _Server:
    thread: ServerThread
    root: str
    token_file: str | None
    made_up: Path | None

    def close(self) -> None:
        self.thread.close()
        if self.made_up is not None:
            remove_token(self.made_up)


class _Servers:
    """The servers of this process by their addresses."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_address: dict[_Address, _Server] = {}

    def forget(self) -> None:
        """In a process that was forked: threads do not come along, but sockets do, and would keep the port."""
        self.lock = threading.Lock()
        atexit.unregister(remove_token)
        for server in self.by_address.values():
            server.thread.forget()
        self.by_address = {}


_servers = _Servers()
os.register_at_fork(after_in_child=_servers.forget)


def serve(job: MonitoredJob, monitoring: Monitoring) -> Served:
    """Show the job on the server of this address, which is started if need be.

    Never raises and never waits for anything: without a server the job runs without a page, and a warning says why.
    """
    address = monitoring.host, monitoring.port, monitoring.token, monitoring.read_only
    with _servers.lock:
        server = _servers.by_address.get(address)
        if server is None:
            try:
                server = _servers.by_address[address] = _started(monitoring)
            except (SnaplineError, OSError) as error:
                _log.warning("job %s has no page: %s", job.name, error)
                return Served()
        server.thread.add(job)
    return Served(page_url(server.root, job.job_id), server.token_file)


def withdraw(job: MonitoredJob) -> None:
    """Show the job no more. A server without jobs is closed."""
    with _servers.lock:
        for address, server in list(_servers.by_address.items()):
            if server.thread.board.remove(job) and not server.thread.board.jobs:
                del _servers.by_address[address]
                server.close()


def close_all() -> None:
    """Close all servers of this program. For tests, and for programs that want their ports back."""
    with _servers.lock:
        servers = list(_servers.by_address.values())
        _servers.by_address = {}
    for server in servers:
        server.close()


def _started(monitoring: Monitoring) -> _Server:
    listening = listening_socket(monitoring)
    made_up: Path | None = None
    try:
        port = int(listening.getsockname()[1])
        token, token_file = _configured(monitoring.token)
        if token is None and not monitoring.is_loopback:
            token = new_token()
            made_up = write_token(token, port)
            atexit.register(remove_token, made_up)
            token_file = str(made_up)
        access = Access(monitoring.is_loopback, port, monitoring.read_only, token)
        thread = ServerThread(listening, access)
        thread.start()
    except BaseException:
        listening.close()
        raise
    return _Server(thread, root_url(monitoring, port), token_file, made_up)


def _configured(token: Secret | None) -> tuple[str | None, str | None]:
    """The token that the settings name, and the file that it is in."""
    if token is None:
        return None, None
    kind, _, path = token.reference.partition(":")
    return token.resolve(), os.path.abspath(path) if kind == "file" else None
