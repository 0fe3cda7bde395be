"""URLs of servers and jobs that people paste."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snapline.cli.usage import UsageError

_OWN_PATHS = frozenset({"snapline", "jobs", "v1", "metrics", "openapi.json", "index.html"})
"""Where a path stops being that of a proxy, and is ours."""


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The address of a server, and parts of the rest of a URL that may be the id of a job."""

    base: str
    parts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, url: str) -> ServerUrl:
        """Raises `UsageError` if this is no URL of a server."""
        try:
            split = urllib.parse.urlsplit(url)
            host, _ = split.hostname, split.port
        except ValueError:
            split, host = urllib.parse.urlsplit(""), None
        if split.scheme not in ("http", "https") or not host:
            raise UsageError(f"{url!r} is no URL of a job; it looks like http://127.0.0.1:4300")
        if split.username is not None or "token=" in f"{split.query}{split.fragment}":
            raise UsageError(
                "a URL on the command line must hold no token or password, since others can see it there: name the "
                "file that holds it with --token-file, or put it into the environment variable SNAPLINE_TOKEN"
            )
        path = [part for part in split.path.split("/") if part]
        ours = next((number for number, part in enumerate(path) if part in _OWN_PATHS), len(path))
        base = urllib.parse.urlunsplit((split.scheme, split.netloc, "/".join(["", *path[:ours]]), "", ""))
        rest = [*path[ours:], *split.fragment.split("/")]
        return cls(base.rstrip("/"), tuple(urllib.parse.unquote(part) for part in rest if part))


def same_job(row: Mapping[str, Any], job: str) -> bool:
    """Whether a row of `GET /snapline/jobs` is about the job with this id, plain or as 32 hex digits."""
    return job in (row.get("job_id"), row.get("jid"))
