"""Who may ask for what: pure decisions about the headers of a request."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from secrets import token_bytes
from urllib.parse import urlsplit

from snapline.web.rest_errors import RestError

_BEARER = "bearer "
_DEFAULT_PORTS = {"http": 80, "https": 443}

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: nothing from elsewhere."""

DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""The same for everything that is no page."""

HEADERS = (
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
"""Headers of every answer."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may reach a server. `token` is what every request must carry, None for nothing.

    `cookie` stands for the token in a browser: it is made with a key of this server, so that it gives the token away to
    nobody, and is of no use elsewhere. Its name has the port in it, since browsers send cookies to all ports of a host.
    """

    is_loopback: bool
    port: int
    read_only: bool
    token: str | None = field(default=None, repr=False)
    key: bytes = field(default_factory=lambda: token_bytes(32), repr=False)

    @property
    def cookie_name(self) -> str:
        return f"snapline-{self.port}"

    @property
    def cookie(self) -> str:
        return hmac.new(self.key, (self.token or "").encode(), sha256).hexdigest()

    @property
    def set_cookie(self) -> str:
        """The header that makes a browser send the cookie from now on."""
        return f"{self.cookie_name}={self.cookie}; Path=/; HttpOnly; SameSite=Strict"

    def is_token(self, given: str) -> bool:
        """Whether this is the token. Takes the same time for every wrong one."""
        return self.token is not None and _is_same(given, self.token)

    def check_host(self, headers: Mapping[str, str]) -> None:
        """A page from elsewhere whose name was made to point at this machine must not read what only its users may."""
        host = headers.get("host", "")
        if self.is_loopback and not _is_loopback_name(host):
            raise RestError(
                403,
                f"this server is only for its own machine, not for {host[:100]!r}; ask for http://127.0.0.1:{self.port},"
                " or set Monitoring(host=...), which then asks for a token",
            )

    def check_token(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Refuses a request without the token. Returns whether it came with the cookie, as from a browser."""
        if self.token is None:
            return False
        given = headers.get("authorization")
        if given is not None:
            if given[: len(_BEARER)].lower() == _BEARER and self.is_token(given[len(_BEARER) :].strip()):
                return False
            raise _unauthorized("this is not the token of this server")
        if _is_same(cookies.get(self.cookie_name, ""), self.cookie):
            return True
        raise _unauthorized("a token is needed: send `Authorization: Bearer <token>`, or open /?token=<token>")

    def check_change(self, headers: Mapping[str, str], *, by_cookie: bool) -> None:
        """Refuses what changes a job if the server is read-only, or if a page of somebody else sent it."""
        if self.read_only:
            raise RestError(403, "this server is read-only: Monitoring(read_only=True)")
        if not _is_same_origin(headers, by_cookie=by_cookie):
            raise RestError(
                403,
                "a page from elsewhere may not change anything; use the page of this server, or a program that is no "
                "browser",
            )


def _is_same_origin(headers: Mapping[str, str], *, by_cookie: bool) -> bool:
    """Whether a request comes from our own page, or from no page at all.

    Browsers say where a request comes from, but not always all of it: each of these headers must be right that is
    there, and a request that shows signs of a browser needs at least one.
    """
    host = headers.get("host", "").lower()
    site = headers.get("sec-fetch-site")
    said = [] if site is None else [site == "same-origin"]
    for name in ("origin", "referer"):
        if name in headers:
            said.append(_authority(headers[name]) == _with_port(host, _scheme(headers[name])))
    if said:
        return all(said)
    return not by_cookie and "mozilla/" not in headers.get("user-agent", "").lower()


def _authority(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return None if not parts.netloc else _with_port(parts.netloc.rpartition("@")[2].lower(), parts.scheme)
    except ValueError:
        return None


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def _with_port(authority: str, scheme: str) -> str:
    """Without the port that the scheme means anyway."""
    return authority.removesuffix(f":{_DEFAULT_PORTS.get(scheme, '')}")


@lru_cache(maxsize=100)
def _is_loopback_name(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    name = name.removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _unauthorized(error: str) -> RestError:
    return RestError(401, error, headers=(("www-authenticate", 'Bearer realm="snapline"'),))
