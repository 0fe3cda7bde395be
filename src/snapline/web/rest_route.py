"""What a route is: the table of them serves requests and describes itself (OpenAPI)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from snapline.web.job_board import BoardJob, JobAnswers, JobBoard, encode
from snapline.web.operations import Operations
from snapline.web.rest_errors import RestError, bad_request, not_found
from snapline.web.security import Access

JSON = "application/json"

MAX_INTEGER = (1 << 53) - 1
"""Greater numbers are not the same for every client: JavaScript has them as floats."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def json_answer(value: Any, status: int = 200) -> Answer:
    return Answer(encode(value), status)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a path or query. Without `is_integer` it is text."""

    name: str
    description: str
    is_integer: bool = False
    least: int = -MAX_INTEGER
    most: int = MAX_INTEGER
    default: int | str | None = None
    values: tuple[str, ...] = ()

    def parse(self, text: str) -> int | str:
        """The value. Raises `RestError` if it is none."""
        if self.is_integer:
            return self._number(text)
        if self.values and text not in self.values:
            raise bad_request(f"{self.name}={text[:100]!r}: unknown; use one of {', '.join(self.values)}")
        return text

    def _number(self, text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII):
            raise bad_request(f"{self.name}={text[:100]!r}: not a whole number")
        number = int(text)
        if number < self.least:
            raise bad_request(f"{self.name}={number}: too small; use at least {self.least}")
        if number > self.most:
            raise bad_request(f"{self.name}={number}: too large; use at most {self.most}")
        return number


@dataclass(frozen=True, slots=True)
class Server:
    """What the handlers of one server share. Used on its loop."""

    board: JobBoard
    operations: Operations
    access: Access


@dataclass(frozen=True, slots=True)
class Call:
    """One request, checked: who asks may ask, and all values are of their types."""

    server: Server
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any = None

    @property
    def job(self) -> BoardJob:
        """The job that the path names."""
        name = self.path["job"]
        found = self.server.board.find(name)
        if found is None:
            raise not_found(f"there is no job {name[:100]!r} here; /snapline/jobs lists those that are")
        return found

    async def answers(self) -> JobAnswers:
        """The newest view of that job."""
        return await self.job.answers()


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the table. `answer` is the type of what a good answer holds, in JSON; None is text of `media`.

    `changes` marks what changes a job, whatever the method.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any = None
    status: int = 200
    body: Any = None
    query: tuple[Parameter, ...] = ()
    changes: bool = False
    tag: str = "Flink"
    media: str = JSON

    @property
    def segments(self) -> tuple[str, ...]:
        return _split(self.path)

    def matches(self, segments: tuple[str, ...]) -> bool:
        """Whether this is the path of the route, its parameters left open."""
        own = self.segments
        return len(own) == len(segments) and all(
            name == given or (name.startswith("{") and given != "") for name, given in zip(own, segments, strict=True)
        )

    def path_values(self, segments: tuple[str, ...]) -> dict[str, Any]:
        """The parameters in a path that matches. Raises `RestError` for one that cannot be."""
        pairs = zip(self.segments, segments, strict=True)
        return {
            name: PATH_PARAMETERS[name].parse(given)
            for name, given in ((name[1:-1], given) for name, given in pairs if name.startswith("{"))
        }

    def query_values(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The parameters of the query. Those that the route does not have are left out."""
        return {
            parameter.name: parameter.parse(given[parameter.name]) if parameter.name in given else parameter.default
            for parameter in self.query
        }

    def decoded_body(self, data: bytes) -> Any:
        """The body as its type; an empty one has all defaults. Raises `RestError` if it does not fit."""
        if self.body is None:
            return None
        try:
            return msgspec.json.decode(data or b"{}", type=self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise bad_request(f"the body does not fit: {error}") from None


@lru_cache(maxsize=1000)
def _split(path: str) -> tuple[str, ...]:
    """Of routes only."""
    return tuple(path.split("/")[1:])


PATH_PARAMETERS: Mapping[str, Parameter] = {
    parameter.name: parameter
    for parameter in (
        Parameter("job", "A job: 32 hex digits, or its plain id, percent-encoded."),
        Parameter("application", "An application: the id of its job."),
        Parameter("vertex", "A vertex: 32 hex digits, or its plain id, percent-encoded."),
        Parameter("checkpoint", "The id of a checkpoint.", is_integer=True),
        Parameter("trigger", "The id of an operation, as the request for it was answered with."),
    )
}


class RouteTable:
    """The routes of a server, by the number of segments in their paths."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self._by_length: dict[int, list[Route]] = {}
        for route in routes:
            self._by_length.setdefault(len(route.segments), []).append(route)

    def find(self, method: str, segments: tuple[str, ...]) -> Route | None:
        """The route for a request; None if no route has this path. A fixed path goes before one with parameters.

        Raises `RestError` if the path has no such method.
        """
        fitting = [route for route in self._by_length.get(len(segments), ()) if route.matches(segments)]
        if not fitting:
            return None
        nearest = min(fitting, key=lambda route: tuple(segment.startswith("{") for segment in route.segments)).path
        methods = {route.method: route for route in fitting if route.path == nearest}
        if "GET" in methods and not methods["GET"].changes:
            methods["HEAD"] = methods["GET"]
        if method in methods:
            return methods[method]
        allowed = sorted(methods)
        raise RestError(
            405,
            f"{method[:20]} is not a method of this path; use {', '.join(allowed)}",
            headers=(("allow", ", ".join(allowed)),),
        )


def path_segments(raw_path: bytes) -> tuple[str, ...]:
    """The parts of a path, each decoded on its own, since an id may hold a slash. `/v1` before them is left out."""
    parts = raw_path.lstrip(b"/").split(b"/")
    if parts and parts[0] == b"v1":
        parts = parts[1:]
    try:
        return tuple(unquote_to_bytes(part).decode() for part in parts) or ("",)
    except UnicodeDecodeError:
        raise bad_request("the path is not UTF-8") from None
