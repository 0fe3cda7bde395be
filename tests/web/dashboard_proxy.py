"""One origin for Flink's dashboard and our REST interface: serves its files and passes on everything else."""

from __future__ import annotations

import http.client
import mimetypes
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 60.0
_OF_ONE_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")


class DashboardProxy(ThreadingHTTPServer):
    """Files by their paths, and the REST interface at `upstream`. `calls` are those that were passed on."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], upstream: str) -> None:
        self.files = files
        self.upstream = urlsplit(upstream)
        self.calls: list[tuple[str, str, int]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def paths(self) -> set[str]:
        """The paths that were asked for, without their queries."""
        return {path.partition("?")[0] for _, path, _ in list(self.calls)}


@contextmanager
def dashboard_proxy(files: Mapping[str, bytes], upstream: str) -> Iterator[DashboardProxy]:
    with DashboardProxy(files, upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, name="dashboard", daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: DashboardProxy
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        name = self.path.partition("?")[0].lstrip("/") or "index.html"
        content = self.server.files.get(name)
        if content is not None:
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            self._send(200, [("Content-Type", kind)], content)
            return
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        upstream = self.server.upstream
        connection = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=TIMEOUT_S)
        try:
            headers = {key: value for key, value in self.headers.items() if key.lower() not in _OF_ONE_HOP}
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        self.server.calls.append((self.command, self.path, response.status))
        kept = [(key, value) for key, value in response.getheaders() if key.lower() not in _OF_ONE_HOP]
        self._send(response.status, kept, content)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def _send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the calls are kept."""
