"""One web server: a listening socket, and a thread with a loop of its own that answers."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import Any

from snapline.text import is_milestone
from snapline.web.job_board import JobBoard
from snapline.web.listen_sockets import BACKLOG
from snapline.web.monitored_job import MonitoredJob
from snapline.web.security import Access

CLOSE_TIMEOUT_S = 5.0
"""How long `close` waits for the thread."""

_log = logging.getLogger(__name__)


class ServerThread:
    """Serves jobs on a socket that listens already: requests wait there until the thread is ready.

    The thread is a daemon and leaves nothing to do at the end of the program. All methods may be called on any thread.
    """

    def __init__(self, listening: socket.socket, access: Access) -> None:
        self.board = JobBoard()
        self.access = access
        self._listening = listening
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._closing: asyncio.Event | None = None
        self._problems = 0
        self._thread = threading.Thread(target=self._run, name=f"snapline-web-{access.port}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, job: MonitoredJob) -> None:
        """Show a job. Of those that have ended, the oldest may go."""
        self.board.add(job)
        self._post(self._tidy)

    def close(self) -> None:
        """End the server and its connections. Returns when the thread is gone, or does not end in time."""
        with self._lock:
            self._is_closed = True
        self._post(self._end)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_TIMEOUT_S)
            if self._thread.is_alive():
                _log.warning("the web server at port %d does not end; its thread is left behind", self.access.port)

    def forget(self) -> None:
        """Close the socket in a process that was forked: the server runs in its parent only."""
        self._listening.close()

    def _post(self, callback: Any) -> None:
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback)

    # On the thread.

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(self._raised)
        try:
            loop.run_until_complete(self._main(loop))
        except Exception as error:
            _log.warning(
                "the web server at port %d has failed; jobs go on without it", self.access.port, exc_info=error
            )
        finally:
            with self._lock:
                self._loop = None
            _cancel_all(loop)
            loop.close()
            self._listening.close()

    async def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        # Imported here, since it takes longer than anybody who starts a job should wait.
        from snapline.web.http_protocol import Connections, protocol_factory
        from snapline.web.operations import Operations
        from snapline.web.rest_app import RestApp
        from snapline.web.rest_route import Server

        app = RestApp(Server(self.board, Operations(), self.access))
        connections = Connections()
        self._closing = asyncio.Event()
        server = await loop.create_server(
            protocol_factory(app, connections, loop), sock=self._listening, backlog=BACKLOG
        )
        with self._lock:
            self._loop = loop
            if self._is_closed:
                self._closing.set()
        self._tidy()
        try:
            await self._closing.wait()
        finally:
            server.close()
            connections.close()

    def _tidy(self) -> None:
        self._tidying = asyncio.ensure_future(self.board.tidy())

    def _end(self) -> None:
        assert self._closing is not None
        self._closing.set()

    def _raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What goes wrong beside requests, such as a lack of file descriptors: once, then at growing intervals."""
        del loop
        self._problems += 1
        if is_milestone(self._problems - 1, self._problems):
            _log.warning("the web server at port %d: %s", self.access.port, context.get("message"))


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    # Connections that were ended are closed with the loop's next turns.
    loop.run_until_complete(asyncio.sleep(0))
