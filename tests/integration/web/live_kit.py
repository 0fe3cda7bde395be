"""Jobs that run and are served, and a client that asks about them over HTTP."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import snapline as sl
from snapline.web.rest_ids import hex_id

DEADLINE_S = 60.0

Start: TypeAlias = Callable[..., sl.JobHandle]
"""Starts a job, on threads or on a cluster that is given."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks one server, with a connection for each request."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.root = url.partition("/#")[0]
        self.port = int(self.root.rpartition(":")[2])
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        given = {**self._headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        try:
            if body is not None:
                given.setdefault("Content-Type", "application/json")
            connection.request(method, path, None if body is None else json.dumps(body), given)
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        reply = self.ask("GET", path)
        assert reply.status == 200, reply.body
        return reply.json

    def until(self, path: str, condition: Callable[[Any], Any]) -> Any:
        """Asks again and again until the answer is as wanted."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            reply = self.ask("GET", path)
            if reply.status == 200 and condition(reply.json):
                return reply.json
            assert time.monotonic() < deadline_s, f"{path}: {reply.body[:1000]!r}"
            time.sleep(0.02)

    def outcome(self, request_id: str) -> Any:
        """What has become of an operation, once it has ended."""
        return self.until(f"/snapline/operations/{request_id}", lambda found: found["status"] != "running")


def clicks(name: str, directory: Path, monitoring: sl.Monitoring, **settings: Any) -> sl.Job:
    """A job of two vertices that runs until somebody ends it."""
    checkpoints = sl.Checkpoints(
        interval="200ms", storage=directory / "checkpoints", savepoint_dir=directory / "savepoints", **settings
    )
    job = sl.Job(name, parallelism=2, checkpoints=checkpoints, monitoring=monitoring)
    rows = job.source(sl.sources.Rate(2000, users=5), uid="clicks")
    rows.rebalance().sink(sl.sinks.Files(directory / "out" / name), uid="out")
    return job


def started(client: Client, name: str) -> str:
    """The id in REST of a job that has completed two checkpoints."""
    client.until(f"/jobs/{hex_id(name)}/checkpoints", lambda found: found["counts"]["completed"] >= 2)
    return hex_id(name)
