"""A schema registry in memory that speaks Confluent's REST protocol, for tests."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class RegistryServer(ThreadingHTTPServer):
    """Schemas have numbers from 1 on. New fields of a record need a default, as with the usual BACKWARD rule."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: dict[int, str] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.credentials: str | None = None
        """`user:password` that requests must have."""
        self.answer: tuple[int, bytes] | None = None
        """Answered to every request instead."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, subject: str, schema: str) -> int:
        """The number of a schema under a subject."""
        same = [number for number, text in self.schemas.items() if text == schema]
        number = same[0] if same else len(self.schemas) + 1
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def is_compatible(self, subject: str, schema: str) -> bool:
        versions = self.subjects.get(subject, [])
        if not versions:
            return True
        before = {field["name"]: field["type"] for field in json.loads(self.schemas[versions[-1]])["fields"]}
        return all(
            before[field["name"]] == field["type"] if field["name"] in before else "default" in field
            for field in json.loads(schema)["fields"]
        )


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(f"{method} {self.path}")
        status, data = self.server.answer or self._found(method, body)
        self.send_response(status)
        if status in (301, 302, 307):
            self.send_header("Location", self.server.url + "/elsewhere")
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _found(self, method: str, body: bytes) -> tuple[int, bytes]:
        status, answer = self._routed(method, [unquote(part) for part in self.path.split("/")[1:]], body)
        return status, json.dumps(answer).encode()

    def _routed(self, method: str, path: list[str], body: bytes) -> tuple[int, Any]:
        server = self.server
        wanted = server.credentials
        if wanted is not None:
            given = f"Basic {base64.b64encode(wanted.encode()).decode()}"
            if self.headers.get("Authorization") != given:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        match method, path:
            case "GET", ["schemas", "ids", text]:
                if int(text) not in server.schemas:
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, {"schema": server.schemas[int(text)]}
            case "GET", ["subjects", subject, "versions", "latest"]:
                if subject not in server.subjects:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                versions = server.subjects[subject]
                number = versions[-1]
                schema = server.schemas[number]
                return 200, {"subject": subject, "version": len(versions), "id": number, "schema": schema}
            case "POST", ["subjects", subject, "versions"]:
                schema = json.loads(body)["schema"]
                if not server.is_compatible(subject, schema):
                    return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
                return 200, {"id": server.add(subject, schema)}
            case "POST", ["subjects", subject]:
                schema = json.loads(body)["schema"]
                for number in server.subjects.get(subject, []):
                    if server.schemas[number] == schema:
                        return 200, {"subject": subject, "id": number, "version": 1, "schema": schema}
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case "POST", ["compatibility", "subjects", subject, "versions", "latest"]:
                if subject not in server.subjects:
                    return 404, {"error_code": 40401, "message": "Subject not found."}
                return 200, {"is_compatible": server.is_compatible(subject, json.loads(body)["schema"])}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A registry on a free port of loopback, until the block ends."""
    with RegistryServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
