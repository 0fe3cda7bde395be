"""The application behind the server (ASGI): checks each request, finds its route, and writes the answer."""

from __future__ import annotations

import asyncio
import logging
import time
from email.utils import formatdate
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from snapline.text import is_milestone
from snapline.web.asset_files import find_asset
from snapline.web.job_board import encode
from snapline.web.openapi import ALL_ROUTES
from snapline.web.own_types import Errors
from snapline.web.rest_errors import RestError, bad_request, not_found, unavailable
from snapline.web.rest_route import JSON, Answer, Call, Route, RouteTable, Server, path_segments
from snapline.web.security import DATA_POLICY, HEADERS, PAGE_POLICY

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

MAX_BODY_BYTES = 64 << 10
MAX_QUERY_FIELDS = 50
CHUNK_BYTES = 64 << 10
"""Answers are written in parts of this size, so that one who does not read costs no more memory than this."""

ANSWER_TIMEOUT_S = 15.0
"""How long an answer may take to be made."""

_ROUTES = RouteTable(ALL_ROUTES)

_log = logging.getLogger(__name__)


class RestApp:
    """Serves REST interface and page. Used on the loop of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._defects = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called by uvicorn for each request."""
        from starlette.requests import Request

        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await self._answer(request)
        except RestError as error:
            answer = _refusal(error)
        except TimeoutError:
            answer = _refusal(unavailable(f"there was no answer within {ANSWER_TIMEOUT_S:g} s; ask again"))
        except Exception as error:
            answer = self._defect(error)
        await _send(request, answer, send)

    async def _answer(self, request: Request) -> Answer:
        access = self._server.access
        access.check_host(request.headers)
        segments = path_segments(request.scope.get("raw_path") or request.url.path.encode())
        query = _query(request.scope.get("query_string", b""))
        if segments == ("",) and request.method == "GET" and access.is_token(query.get("token", "")):
            # The token must not stay in the address bar, nor in the history.
            return Answer(b"", 303, headers=(("location", "./"), ("set-cookie", access.set_cookie)))
        try:
            by_cookie = access.check_token(request.headers, request.cookies)
        except RestError as error:
            if segments == ("",) and "text/html" in request.headers.get("accept", ""):
                return _sign_in(error)
            raise
        route = _ROUTES.find(request.method, segments)
        if route is None:
            return _asset(request, segments)
        return await self._call(request, route, segments, query, by_cookie=by_cookie)

    async def _call(
        self, request: Request, route: Route, segments: tuple[str, ...], query: dict[str, str], *, by_cookie: bool
    ) -> Answer:
        if route.changes:
            self._server.access.check_change(request.headers, by_cookie=by_cookie)
        data = await _body(request)
        if data and route.body is None:
            raise bad_request("this call takes no body")
        if data and not _is_json(request.headers.get("content-type", "")):
            raise RestError(415, "send the body as JSON, with the header `Content-Type: application/json`")
        path, values = route.path_values(segments), route.query_values(query)
        return await route.handler(Call(self._server, path, values, route.decoded_body(data)))

    def _defect(self, error: Exception) -> Answer:
        """Logged at growing intervals, since pages ask again and again."""
        self._defects += 1
        if is_milestone(self._defects - 1, self._defects):
            _log.error("the web server could not answer a request; this is a defect", exc_info=error)
        return _refusal(
            RestError(500, f"this is a defect of Snapline: {type(error).__name__}; the driver's log has more")
        )


def _query(raw: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS, errors="strict"))
    except ValueError:
        raise bad_request("the query cannot be read, or has too many fields") from None


async def _body(request: Request) -> bytes:
    from starlette.requests import ClientDisconnect

    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    data = bytearray()
    try:
        async for part in request.stream():
            data += part
            if len(data) > MAX_BODY_BYTES:
                raise _too_large()
    except ClientDisconnect:
        raise bad_request("the request was given up") from None
    return bytes(data)


def _too_large() -> RestError:
    # Closed, since the rest of the body would come before the next request.
    return RestError(413, f"a body has at most {MAX_BODY_BYTES} bytes", headers=(("connection", "close"),))


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == JSON


def _refusal(error: RestError) -> Answer:
    return Answer(encode(Errors(list(error.errors))), error.status, headers=error.headers)


def _asset(request: Request, segments: tuple[str, ...]) -> Answer:
    asset = find_asset(segments)
    if asset is None:
        raise not_found(f"there is nothing at /{'/'.join(segments)[:200]}")
    if request.method not in ("GET", "HEAD"):
        raise RestError(405, "this is a file; use GET", headers=(("allow", "GET, HEAD"),))
    headers = (("etag", asset.etag), ("cache-control", "no-cache"))
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if asset.etag in known:
        return Answer(b"", 304, asset.content_type, headers)
    return Answer(asset.content, 200, asset.content_type, headers)


def _sign_in(error: RestError) -> Answer:
    """The page for a browser that has no token yet."""
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Snapline</title><h1>Snapline</h1>'
        f"<p>{escape(error.errors[0])}</p>"
        '<form action="./"><label>Token <input name="token" type="password" autocomplete="off" required></label> '
        "<button>Open</button></form></html>"
    )
    return Answer(page.encode(), 401, "text/html; charset=utf-8", error.headers)


async def _send(request: Request, answer: Answer, send: Send) -> None:
    headers = _encoded_headers(answer.content_type, answer.headers, int(time.time()))
    if answer.status != 304:
        headers = (*headers, (b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = memoryview(answer.body) if request.method != "HEAD" else memoryview(b"")
    for start in range(0, max(len(body), 1), CHUNK_BYTES):
        more = start + CHUNK_BYTES < len(body)
        await send({"type": "http.response.body", "body": bytes(body[start : start + CHUNK_BYTES]), "more_body": more})


@lru_cache(maxsize=100)
def _encoded_headers(
    content_type: str, own: tuple[tuple[str, str], ...], now_s: int
) -> tuple[tuple[bytes, bytes], ...]:
    """All headers of an answer but its length. Viewers ask for the same things many times in a second."""
    headers = {
        "date": formatdate(now_s, usegmt=True),
        "content-type": content_type,
        "cache-control": "no-store",
        "content-security-policy": PAGE_POLICY if content_type.startswith("text/html") else DATA_POLICY,
        **dict(HEADERS),
        **dict(own),
    }
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items())
