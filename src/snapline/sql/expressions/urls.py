"""Parts of URLs, and their encoding."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import quote_plus, unquote_to_bytes

import pyarrow as pa

from snapline.sql.expressions.java_patterns import translated
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.plans.trees import Expression

_URI = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):)?"
    r"(?:(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?)(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_LEGAL = re.compile(r"(?:[A-Za-z0-9_\-!.~'()*,;:$&+=?/\[\]@#]|%[0-9A-Fa-f]{2}|[^\x00-\x7f\s\x80-\xa0])*")
_SERVER = re.compile(r"(?:(?P<user>[^@]*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.\-]*)(?::(?P<port>\d*))?")
_HOST = re.compile(
    r"\[.*\]|\d{1,3}(?:\.\d{1,3}){3}|(?:[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.?"
)


class UrlError(Exception):
    """The text is no URL."""


@kernel("ParseUrl", reads_all=True)
def _parse_url(expression: Expression) -> Kernel:
    fails = bool(expression.arguments.get("failOnError"))

    def part(url: str, name: str, key: str | None = None) -> str | None:
        try:
            return url_part(url, name, key)
        except UrlError as error:
            if not fails:
                return None
            message = f"The url is invalid: {url}. Use `try_parse_url` to tolerate invalid URL and return NULL instead."
            raise SparkError("INVALID_URL", message) from error

    return rowwise(part, pa.string())


def url_part(url: str, name: str, key: str | None = None) -> str | None:
    """One part of a URL, as Java's `URI` takes it apart, or None. Raises `UrlError`."""
    if key is not None and name != "QUERY":
        return None
    found = _URI.fullmatch(url)
    if found is None or not _LEGAL.fullmatch(url) or url.count("#") > 1:
        raise UrlError(url)
    if found["scheme"] is None and found["authority"] is None and ":" in found["path"].partition("/")[0]:
        raise UrlError(url)
    if found["scheme"] and url.endswith(":") and len(url) == len(found["scheme"]) + 1:
        raise UrlError(url)
    is_opaque = found["scheme"] is not None and not url[len(found["scheme"]) + 1 :].startswith("/")
    if not is_opaque and not _is_hierarchical(found["authority"] or "", found["path"]):
        raise UrlError(url)
    path = None if is_opaque else found["path"]
    query = None if is_opaque else found["query"]
    if key is not None:
        if query is None:
            return None
        match = translated(f"(&|^){key}=([^&]*)").python.search(query)
        return match[2] if match else None
    authority = None if is_opaque else (found["authority"] or None)
    server = _SERVER.fullmatch(authority) if authority else None
    if server is not None and server["host"] and not _HOST.fullmatch(server["host"]):
        server = None
    match name:
        case "HOST":
            return server["host"] or None if server else None
        case "PATH":
            return path
        case "QUERY":
            return query
        case "REF":
            return found["fragment"]
        case "PROTOCOL":
            return found["scheme"]
        case "FILE":
            return f"{path}?{query}" if query is not None else path
        case "AUTHORITY":
            return authority
        case "USERINFO":
            return server["user"] if server else None
    return None


def _is_hierarchical(authority: str, path: str) -> bool:
    """Whether brackets are only around the address of a host."""
    if set("[]") & set(path):
        return False
    if not set("[]") & set(authority):
        return True
    server = _SERVER.fullmatch(authority)
    return server is not None and _is_address(server["host"])


def _is_address(host: str) -> bool:
    try:
        return host.startswith("[") and bool(ipaddress.IPv6Address(host[1:-1]))
    except ValueError:
        return False


_BAD_ESCAPE: Final = re.compile(r"%(?!\+?[0-9A-Fa-f]|[0-9A-Fa-f]{2})|%[0-9A-Fa-f](?![0-9A-Fa-f])")
_SIGNED_ESCAPE: Final = re.compile(r"%\+([0-9A-Fa-f])")
_UNRESERVED: Final = "*-._"


@kernel("UrlEncode")
def _url_encode(_expression: Expression) -> Kernel:
    return rowwise(lambda text: quote_plus(text, safe=_UNRESERVED).replace("~", "%7E"), pa.string())


@kernel("UrlDecode")
def _url_decode(expression: Expression) -> Kernel:
    fails = bool(expression.arguments.get("failOnError", True))

    def decoded(text: str) -> str | None:
        if _BAD_ESCAPE.search(text):
            if not fails:
                return None
            message = f"The provided URL cannot be decoded: {text}. Please ensure that the URL is properly formatted."
            raise SparkError("CANNOT_DECODE_URL", message)
        # Java reads the digits as a number, which may have a sign.
        plain = _SIGNED_ESCAPE.sub(r"%0\1", text)
        return unquote_to_bytes(plain.replace("+", " ")).decode(errors="replace")

    return rowwise(decoded, pa.string())
