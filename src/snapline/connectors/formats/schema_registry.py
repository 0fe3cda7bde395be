"""A client of a schema registry that speaks Confluent's REST protocol."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from snapline.config.secret import Secret, SecretLike
from snapline.errors import ConfigurationError, SnaplineError, TransientError, UserCodeError

_CONTENT = "application/vnd.schemaregistry.v1+json"
_MAX_ANSWER_BYTES = 16 << 20
_MAX_SAID_CHARACTERS = 300


class UnknownSchemaError(UserCodeError):
    """The registry has no schema or subject of this name or number."""


class SchemaRegistry:
    """Requests to a registry, each a connection of its own. It is pickled with the job: it holds settings only.

    Every request raises `TransientError` if the registry is away or fails, `UnknownSchemaError` if it does not have
    what is asked for, and `ConfigurationError` if it refuses. No message shows a credential.
    """

    def __init__(
        self,
        url: str,
        *,
        user: SecretLike | None = None,
        password: SecretLike | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        parts = urllib.parse.urlsplit(url if isinstance(url, str) else "")
        if parts.username is not None or parts.password is not None:
            raise ConfigurationError("registry: the address has credentials in it; give registry_user= and _password=")
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise ConfigurationError(f"registry={url!r}: give an address such as 'http://127.0.0.1:8081'")
        if (user is None) != (password is None):
            raise ConfigurationError("registry: give both registry_user= and registry_password=, or none of them")
        if timeout_s <= 0:
            raise ConfigurationError(f"registry: timeout_s={timeout_s!r}; give seconds, more than 0")
        self._url = url.rstrip("/")
        self._user = None if user is None else Secret.of(user, "registry_user")
        self._password = None if password is None else Secret.of(password, "registry_password")
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._url!r})"

    def schema(self, number: int) -> str:
        """The text of the schema with this id."""
        answer = self._request("GET", f"/schemas/ids/{number}", f"the schema {number}", "schema")
        if answer.get("references"):
            raise ConfigurationError(f"{self!r}: the schema {number} refers to other subjects, which is not supported")
        return str(answer["schema"])

    def latest(self, subject: str) -> str:
        """The text of the newest schema of a subject."""
        path = f"/subjects/{_quoted(subject)}/versions/latest"
        return str(self._request("GET", path, _named(subject), "schema")["schema"])

    def register(self, subject: str, schema: str) -> int:
        """The id of this schema, which becomes the newest of the subject unless the subject has it."""
        path = f"/subjects/{_quoted(subject)}/versions"
        return int(self._request("POST", path, _named(subject), "id", {"schema": schema})["id"])

    def lookup(self, subject: str, schema: str) -> int:
        """The id of this schema, if the subject has it."""
        path, what = f"/subjects/{_quoted(subject)}", f"this schema under {_named(subject)}"
        return int(self._request("POST", path, what, "id", {"schema": schema})["id"])

    def is_compatible(self, subject: str, schema: str) -> bool:
        """Whether the subject would take this schema; a subject that is not there yet takes any."""
        path = f"/compatibility/subjects/{_quoted(subject)}/versions/latest"
        try:
            answer = self._request("POST", path, _named(subject), "is_compatible", {"schema": schema})
        except UnknownSchemaError:
            return True
        return bool(answer["is_compatible"])

    def _request(self, method: str, path: str, what: str, wanted: str, body: Any = None) -> dict[str, Any]:
        """The answer, which has the field `wanted`. `what` is asked for, or about."""
        headers = {"Accept": _CONTENT}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = _CONTENT
        if self._user is not None and self._password is not None:
            pair = f"{self._user.resolve()}:{self._password.resolve()}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        # The address was checked to be one of HTTP.
        request = urllib.request.Request(self._url + path, data, headers, method=method)  # noqa: S310
        call = f"{method} {self._url}{path}"
        try:
            with _OPENER.open(request, timeout=self._timeout_s) as response:
                text = response.read(_MAX_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, _said(error), call, what) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise TransientError(
                f"the schema registry cannot be reached: {call}: {reason}; check that it runs and registry="
            ) from error
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or wanted not in answer:
            raise ConfigurationError(f"{call} did not answer as a schema registry does; check registry=")
        return answer


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the credentials elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _refusal(status: int, said: str, call: str, what: str) -> SnaplineError:
    end = f" ({call} answered {status}{said})"
    if status == 404:
        return UnknownSchemaError(f"the schema registry does not have {what}{end}")
    if status in (401, 403):
        # They are read anew with every request: a task may have better ones the next time.
        return TransientError(f"the schema registry refuses the credentials; check registry_user=, _password={end}")
    if status == 409:
        return ConfigurationError(
            f"the schema registry refuses the schema: it is not compatible with {what}; change the columns so that "
            f"readers of older messages can go on, or use another subject{end}"
        )
    if status in (408, 429) or status >= 500:
        return TransientError(f"the schema registry failed; look at its log{end}")
    return ConfigurationError(f"the schema registry refuses the request{end}")


def _said(error: urllib.error.HTTPError) -> str:
    """What the registry says about an error."""
    try:
        answer = json.loads(error.read(_MAX_ANSWER_BYTES))
        return f": {str(answer['message'])[:_MAX_SAID_CHARACTERS]}"
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return ""


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _named(subject: str) -> str:
    return f"the subject {subject!r}"
