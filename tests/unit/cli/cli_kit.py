"""A server in the shapes of a job's REST interface, and addresses that drivers leave."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from snapline import cli
from snapline.runtime.master.job_address import JobAddress, jobs_directory, stored_address

NOW_MS = 1_800_000_000_000
Answer = tuple[int, Any]


class StubServer:
    """Answers from `answers`, by method and path without the query; a function is called with the body.

    `asked` are the requests so far: method, path with query, body, token.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[Any], Answer]] = {}
        self.asked: list[tuple[str, str, Any, str | None]] = []
        self.token: str | None = None
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, body: Any) -> None:
                status, document = stub.answer(self.command, self.path, body, self.headers.get("Authorization"))
                data = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                if status in (301, 302, 307):
                    self.send_header("Location", "http://127.0.0.1:9/stolen")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, method: str, path: str, body: Any, token: str | None) -> Answer:
        self.asked.append((method, path, body, token))
        if self.token is not None and token != f"Bearer {self.token}":
            return 401, {"errors": ["a token is needed"]}
        found = self.answers.get(f"{method} {path.partition('?')[0]}", (404, {"errors": [f"nothing at {path}"]}))
        return found(body) if callable(found) else found

    def serve(self, *jobs: dict[str, Any]) -> None:
        """Answer for these jobs, which are as `job_now` makes them."""
        names = ("job_id", "jid", "name", "status", "attempt", "started_ms", "ended_ms", "url")
        rows = [{name: job[name] for name in names} | {"health": _short(job["health"])} for job in jobs]
        self.answers["GET /snapline/jobs"] = (200, {"jobs": rows})
        for job in jobs:
            self.answers[f"GET /snapline/jobs/{job['job_id']}"] = (200, job)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def stub_server() -> Iterator[StubServer]:
    server = StubServer()
    try:
        yield server
    finally:
        server.close()


def _short(health: dict[str, Any]) -> dict[str, Any]:
    return {"level": health["level"], "line": health["line"]}


def job_now(server: StubServer, job_id: str = "clicks", **changes: Any) -> dict[str, Any]:
    """A healthy job, in the shape of `GET /snapline/jobs/:job`."""
    jid = job_id.encode().hex().ljust(32, "0")[:32]
    vertex = {
        "status": "RUNNING",
        "rows_in_per_second": 0.0,
        "rows_out_per_second": 20134.0,
        "busy": 0.25,
        "idle": 0.7,
        "backpressured": 0.05,
        "watermark_ms": None,
        "subtasks": [],
    }
    job = {
        "job_id": job_id,
        "jid": jid,
        "name": job_id,
        "status": "RUNNING",
        "attempt": 1,
        "now_ms": NOW_MS,
        "started_ms": NOW_MS - 90_000,
        "ended_ms": None,
        "status_times": {"RUNNING": NOW_MS - 60_000},
        "url": f"{server.url}/#/jobs/{jid}",
        "is_live": True,
        "can_change": True,
        "repeats": 0,
        "failed_attempts": 0,
        "failures": [],
        "health": {"level": "good", "line": "healthy", "notes": []},
        "plan": {"vertices": [{"id": "rows", "name": "rows", "parallelism": 2}], "edges": []},
        "vertices": {"rows": vertex},
        "memory_bytes": {},
        "counts": {"restored": 0, "total": 12, "in_progress": 0, "completed": 12, "failed": 0},
        "last_completed": checkpoint_row(12),
        "last_failed": None,
        "not_started": None,
    }
    return job | changes


def checkpoint_row(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "id": number,
        "kind": "CHECKPOINT",
        "type": "CHECKPOINT",
        "status": "COMPLETED",
        "savepoint_format": None,
        "trigger_ms": NOW_MS - 5000,
        "latest_ack_ms": NOW_MS - 4870,
        "completed_ms": NOW_MS - 4860,
        "end_to_end_duration_ms": 140,
        "checkpointed_bytes": 1_200_000,
        "state_bytes": 3_400_000,
        "processed_bytes": 0,
        "persisted_bytes": 0,
        "subtasks": 4,
        "acknowledged": 4,
        "external_path": f"/chk/clicks/chk-{number}",
        "discarded": False,
        "failure": None,
        "commit_ms": -1,
        "explanation": None,
    }
    return row | changes


def address_of(job: dict[str, Any], **changes: Any) -> JobAddress:
    values: dict[str, Any] = {
        "job_id": job["job_id"],
        "name": job["name"],
        "url": job["url"],
        "token_file": None,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started_ms": job["started_ms"],
        "storage": None,
    }
    return JobAddress(**(values | changes))


def leave_in_home(address: JobAddress) -> Path:
    """What a driver writes into the user's home."""
    path = jobs_directory() / f"{address.job_id}@{address.pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(address.encode())
    path.chmod(0o600)
    return path


def leave_in_storage(address: JobAddress) -> Path:
    path = Path(stored_address(str(address.storage), address.job_id))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(address.encode())
    return path


class Terminal:
    """Runs commands, and keeps what they print."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured
        self.out = self.err = ""

    def run(self, *arguments: object) -> int:
        code = cli.main([str(argument) for argument in arguments])
        self.out, self.err = self._captured.readouterr()
        return code

    def json(self, *arguments: object, code: int = 0) -> Any:
        assert self.run(*arguments, "--json") == code, self.err
        return json.loads(self.out)
