"""The application of the web server, asked without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snapline.web.job_board import JobBoard
from snapline.web.monitored_job import MonitoredJob
from snapline.web.operations import Operations
from snapline.web.rest_app import RestApp
from snapline.web.rest_route import Server
from snapline.web.security import Access

HOST = "127.0.0.1:4300"


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered; `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def errors(self) -> list[str]:
        found = self.json["errors"]
        assert found, "an error says why"
        return list(found)


class Rest:
    """An application with some jobs."""

    def __init__(self, *jobs: MonitoredJob, token: str | None = None, read_only: bool = False) -> None:
        self.board = JobBoard()
        self.access = Access(is_loopback=True, port=4300, read_only=read_only, token=token)
        self.app = RestApp(Server(self.board, Operations(), self.access))
        for job in jobs:
            self.board.add(job)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Ask once, in a loop of its own. Names of headers have `_` for `-`; a body that is no bytes becomes JSON."""
        return asyncio.run(self.asked(method, path, body, **headers))

    async def asked(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """The same within a loop."""
        given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is not None and not isinstance(body, bytes):
            given.setdefault("content-type", "application/json")
        raw_path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": raw_path,
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Reply(sent[0]["status"], found, b"".join(message["body"] for message in sent[1:]))
