"""An S3 that checks access keys, and a driver in a process of its own with a job that is kept there."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.program_kit import programs

from snapline.devtools.kit.processes import end, operator_processes, send

DEADLINE_S = 180.0
KEY = "AKIA-the-access-key"
SECRET = "5ecret-swordfish-0f-the-st0re"
REFUSED = b"<Error><Code>InvalidAccessKeyId</Code><Message>The access key you gave is not known.</Message></Error>"

DRIVER = '''\
"""Runs a job and reports it as the driver of chaos tests does: arguments are its settings as JSON."""

import json
import logging
import sys

import snapline as sl
from snapline.devtools.chaos.chaos_driver import report_until_end
from snapline.devtools.kit.exactly_once import numbering_job
from snapline.testing.clusters import ProcessCluster

if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
    given = json.loads(sys.argv[1])
    zookeeper = given["zookeeper"]
    made = numbering_job(
        "stored",
        given["directory"],
        rows=given["rows"],
        rows_per_second=given["rows_per_second"],
        checkpoints=lambda _: sl.Checkpoints(
            interval="200ms",
            storage=given["storage"],
            storage_options=sl.S3(
                endpoint=given["endpoint"],
                region="us-east-1",
                key=sl.Secret.env("STORE_KEY"),
                secret=sl.Secret.file(given["secret"]),
            ),
            zookeeper=zookeeper,
            zookeeper_auth=sl.Secret.env("JOURNAL_AUTH") if zookeeper else None,
            externalized="RETAIN_ON_CANCELLATION",
        ),
        execution=sl.Execution(heartbeat_interval="200ms", heartbeat_timeout="60s", cancel_timeout="1s"),
        restart=sl.ExponentialDelay(initial_backoff="10ms", max_backoff="100ms"),
        id="stored",
    )
    status = report_until_end(made.job.start(ProcessCluster()))
    sys.exit(0 if status is sl.JobStatus.FINISHED else 1)
'''


def eventually(condition: Callable[[], Any], what: str) -> Any:
    deadline_s = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        time.sleep(0.02)
    return value


class GuardedS3:
    """moto on loopback behind a check of access keys: requests with others than `keys` get 403.

    `client` gives one that is always accepted.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.keys = set(keys)
        self.refused = 0
        self._app = DomainDispatcherApplication(create_backend_app)
        # One request at a time: moto checks and creates an object in two steps, S3 in one.
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=False)
        self._thread = threading.Thread(target=self._server.serve_forever, name="guarded-s3", daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        found = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        if found is None or found[1] not in self.keys:
            self.refused += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response(
                "403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(REFUSED)))]
            )
            return [b"" if environ["REQUEST_METHOD"] == "HEAD" else REFUSED]
        return self._app(environ, start_response)

    def client(self) -> Any:
        """A client of its own, whose key is always known."""
        import s3fs

        self.keys.add("the-test")
        return s3fs.S3FileSystem(
            key="the-test",
            secret="any",
            endpoint_url=self.endpoint,
            client_kwargs={"region_name": "us-east-1"},
            skip_instance_cache=True,
            use_listings_cache=False,
        )

    def __enter__(self) -> GuardedS3:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class DriverProcess:
    """A driver, its reports and its log. `kill` ends it like a power cut, with its operator processes."""

    def __init__(self, directory: Path, settings: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.reports: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self._log = directory / "driver.log"
        with self._log.open("ab") as log:
            self._process = programs().start(
                ["-c", DRIVER, json.dumps(dict(settings))], environment={**os.environ, **environment}, errors=log
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def log(self) -> str:
        """What the driver and its operator processes have said, in this and earlier lives."""
        return self._log.read_text(encoding="utf-8", errors="replace") + "\n".join(self.texts)

    @property
    def operators(self) -> list[int]:
        return [process.pid for process in operator_processes(self._process.pid)]

    def wait_for(self, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        def met() -> dict[str, Any] | None:
            last = self.reports[-1] if self.reports else None
            if last is not None and condition(last):
                return last
            assert self._process.poll() is None, f"the driver has ended before: {what}\n{self.log[-4000:]}"
            return None

        found: dict[str, Any] = eventually(met, what)
        return found

    def wait_for_checkpoints(self, more: int) -> dict[str, Any]:
        wanted = (self.reports[-1]["completed"] if self.reports else 0) + more
        return self.wait_for(lambda it: it["completed"] >= wanted and it["status"] == "RUNNING", f"{more} checkpoints")

    def kill(self) -> None:
        below = operator_processes(self._process.pid)
        send(self._process.pid)
        self._process.wait(DEADLINE_S)
        end(below, 10.0)
        self._end_reading()

    def wait(self) -> int:
        status = self._process.wait(DEADLINE_S)
        self._end_reading()
        return status

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()

    def _end_reading(self) -> None:
        self._reader.join(DEADLINE_S)
        self._process.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.texts.append(line)
            if line.startswith("{") and line.endswith("}\n"):
                self.reports.append(json.loads(line))
