from __future__ import annotations

import http.client
import logging
import threading

import pytest

from snapline.config import Monitoring
from snapline.devtools.kit.sample_views import ScriptedJob, sample_view
from snapline.web.listen_sockets import listening_socket
from snapline.web.security import Access
from snapline.web.server_thread import ServerThread


def started() -> ServerThread:
    listening = listening_socket(Monitoring(port=None))
    server = ServerThread(listening, Access(True, listening.getsockname()[1], False))
    server.start()
    return server


def test_requests_wait_until_the_thread_is_ready() -> None:
    server = started()
    try:
        server.add(ScriptedJob(sample_view()))
        connection = http.client.HTTPConnection("127.0.0.1", server.access.port, timeout=10)
        connection.request("GET", "/snapline/health")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        connection.close()
        assert any(thread.daemon and thread.name.startswith("snapline-web") for thread in threading.enumerate())
    finally:
        server.close()
    assert not any(thread.name.startswith("snapline-web") for thread in threading.enumerate())


def test_closing_twice_does_no_harm() -> None:
    server = started()
    server.close()
    server.close()


def test_a_server_that_cannot_run_says_so(caplog: pytest.LogCaptureFixture) -> None:
    listening = listening_socket(Monitoring(port=None))
    port = listening.getsockname()[1]
    listening.close()
    server = ServerThread(listening, Access(True, port, False))
    with caplog.at_level(logging.WARNING):
        server.start()
        server.close()
    assert f"the web server at port {port} has failed; jobs go on without it" in caplog.text


def test_problems_beside_requests_are_logged_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    server = started()
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(12):
                server._raised(None, {"message": "no file descriptors are left"})  # type: ignore[arg-type]
        assert len(caplog.records) == 2
    finally:
        server.close()
