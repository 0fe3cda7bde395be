"""The REST interface of a running job, as commands use it."""

from __future__ import annotations

import http.client
import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NoReturn

from snapline.cli.usage import OperationError, UnreachableError, UsageError

TIMEOUT_S = 20.0
"""How long one request may take."""

LOOK_TIMEOUT_S = 5.0
"""How long a request may take that only looks whether a job is there."""

MAX_ANSWER_BYTES = 256 << 20

_ASK_AGAIN = 503
"""What the server answers while a job is starting."""

_PAUSE_S = 0.5


class RefusedConnectionError(UnreachableError):
    """Nobody listens at the address: the driver is gone."""


class TokenError(UsageError):
    """The server asks for a token, or for another one."""


class RestClient:
    """One server. `token` goes with every request. Redirects are not followed, as they could lead the token away."""

    def __init__(self, base: str, token: str | None = None) -> None:
        self.base = base.rstrip("/")
        self._token = token
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if _is_loopback(urllib.parse.urlsplit(base).hostname or ""):
            # A proxy elsewhere cannot reach this machine's loopback address.
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, *, timeout_s: float = TIMEOUT_S, **query: object) -> Any:
        """Returns the JSON document at a path, which is already quoted."""
        text = urllib.parse.urlencode({name: value for name, value in query.items() if value is not None})
        return self._ask("GET", f"{path}?{text}" if text else path, None, timeout_s)

    def post(self, path: str, body: dict[str, object]) -> Any:
        given = {name: value for name, value in body.items() if value is not None}
        return self._ask("POST", path, json.dumps(given).encode(), TIMEOUT_S)

    def _ask(self, method: str, path: str, body: bytes | None, timeout_s: float) -> Any:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(f"{self.base}{path}", body, headers, method=method)  # noqa: S310  # http(s)
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                return self._document(self._send(request, timeout_s))
            except urllib.error.HTTPError as error:
                if error.code != _ASK_AGAIN or time.monotonic() + _PAUSE_S > deadline_s:
                    self._refused(error)
                error.close()
            time.sleep(_PAUSE_S)

    def _send(self, request: urllib.request.Request, timeout_s: float) -> bytes:
        try:
            with self._opener.open(request, timeout=timeout_s) as answer:
                data: bytes = answer.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError as error:
            self._lost(error.reason)
        except (OSError, http.client.HTTPException) as error:
            self._lost(error)
        if len(data) > MAX_ANSWER_BYTES:
            raise UnreachableError(f"the answer of {self.base} has more than {MAX_ANSWER_BYTES:,} bytes")
        return data

    def _document(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError:
            raise UnreachableError(
                f"what listens at {self.base} is no Snapline job: it does not answer in JSON"
            ) from None

    def _refused(self, error: urllib.error.HTTPError) -> NoReturn:
        with error:
            problem = _problem(error.read(MAX_ANSWER_BYTES)) or f"it answered {error.code} {error.reason}"
        match error.code:
            case 401:
                raise TokenError(
                    f"{self.base} asks for {'another' if self._token else 'a'} token: name the file that holds it with "
                    "--token-file, or put it into the environment variable SNAPLINE_TOKEN"
                ) from None
            case 404:
                raise UnreachableError(f"{self.base}: {problem}") from None
            case 400 | 405 | 413 | 415 | 422:
                raise UsageError(problem) from None
        raise OperationError(problem) from None

    def _lost(self, reason: object) -> NoReturn:
        if isinstance(reason, ConnectionRefusedError):
            raise RefusedConnectionError(f"nobody listens at {self.base}: the driver of the job is gone") from None
        if isinstance(reason, TimeoutError):
            raise UnreachableError(f"{self.base} does not answer in time") from None
        raise UnreachableError(f"{self.base} cannot be reached: {reason or type(reason).__name__}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """The redirect becomes an `HTTPError`."""


def _problem(data: bytes) -> str:
    """The errors in an answer, in one line; empty if it has none."""
    try:
        errors = json.loads(data)["errors"]
    except (ValueError, KeyError, TypeError):
        return ""
    return "; ".join(str(error).splitlines()[0] for error in errors if str(error).strip()) if errors else ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
