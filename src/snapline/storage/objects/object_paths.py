"""Object paths: validation, parsing, and temporary names."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from snapline.errors import ConfigurationError

TEMPORARY = ".tmp-"
"""Prefix of the names of unfinished files and their directories. Listings hide them; no object may use it."""

SCHEMES = "a local path, file://, s3://, hdfs://, memory:// or another scheme that fsspec knows"

_SAME_SCHEME = {"s3a": "s3"}
_OWNER = re.compile(r"a[0-9]{1,19}-")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_ONE_SLASH_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed path.

    `rest` follows the scheme, `authority` is the host or bucket (empty for a local path), `parts` are the components of
    `rest`, with the authority first.
    """

    path: str
    scheme: str
    rest: str
    authority: str
    parts: tuple[str, ...]

    @property
    def is_root(self) -> bool:
        """Whether this is a whole file system. A bucket is not: naming it is deliberate."""
        return not self.parts or (self.scheme == "hdfs" and self.parts == (self.authority,))


def canonical_scheme(scheme: str) -> str:
    return _SAME_SCHEME.get(scheme.lower(), scheme.lower())


def object_location(path: str) -> Location:
    """Parse the path of an object. Raises `ConfigurationError` with what is wrong with it.

    Nothing is decoded: `%20` is three characters, after `file://` too.
    """
    location = directory_location(path)
    if path.endswith("/"):
        raise wrong_path(path, "ends in '/', so it names a directory; name an object")
    if location.is_root or (location.scheme == "s3" and len(location.parts) == 1):
        raise wrong_path(path, "names a whole file system or bucket; name an object in it")
    return location


def directory_location(path: str) -> Location:
    """Parse the path of a directory, with or without a trailing slash. Raises `ConfigurationError`."""
    if not isinstance(path, str) or not path:
        raise wrong_path(path, f"is not a path; use {SCHEMES}")
    if _CONTROL.search(path):
        raise wrong_path(path, "contains a control character; remove it")
    url = _URL.fullmatch(path)
    if url is None and ("://" in path or _ONE_SLASH_URL.match(path)):
        raise wrong_path(path, f"is neither a local path nor a URL such as file:///data; use {SCHEMES}")
    scheme = canonical_scheme(url["scheme"]) if url else "file"
    rest = url["rest"] if url else path
    authority = rest.partition("/")[0] if url else ""
    if ":" in authority.rpartition("@")[0]:
        raise ConfigurationError("a storage path contains a password; pass it as a storage option instead")
    if scheme == "file" and authority:
        raise wrong_path(path, f"names a host, {authority!r}; write a local URL with three slashes, file:///data")
    if scheme == "file" and not rest:
        raise wrong_path(path, "names no directory; write file:///data")
    if scheme == "s3" and not authority:
        raise wrong_path(path, "names no bucket; write s3://bucket/path")
    if scheme == "s3" and "?versionId=" in path:
        raise wrong_path(path, "names a version of an object; leave out ?versionId=")
    inner = rest if authority else rest.removeprefix("./").removeprefix("/")
    inner = inner.removesuffix("/")
    parts = tuple(inner.split("/")) if inner else ()
    if inner and not is_below(inner):
        raise wrong_path(path, "has an empty component, '.' or '..'; write the path out")
    if any(part.startswith(TEMPORARY) for part in parts):
        raise wrong_path(path, f"has a component that starts with {TEMPORARY!r}, which is reserved; rename it")
    return Location(path, scheme, rest, authority, parts)


def is_below(path: str) -> bool:
    """Whether a relative path is normalized and stays below its base."""
    return not any(part in ("", ".", "..") for part in path.split("/"))


def wrong_path(path: object, problem: str) -> ConfigurationError:
    return ConfigurationError(f"the storage path {path!r} {problem}")


def temporary_name(name: str, token: str) -> str:
    """The name of an unfinished object; it carries the attempt that writes it if `name` does.

    This separates leftovers of a dead process from what another is writing.
    """
    owner = _OWNER.match(name.rpartition("/")[2])
    return f"{TEMPORARY}{owner[0] if owner else ''}{token}"


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Yields a temporary path that becomes `target` when the block succeeds, and is removed when it raises.

    Creates the directory. Does not sync: use it for files needed only while the machine runs.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
