"""The files of the page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"
INDEX = "index.html"

MAX_FILE_BYTES = 8 << 20

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. `etag` changes with its content."""

    content: bytes
    content_type: str
    etag: str


def find_asset(segments: tuple[str, ...], root: Path = ASSETS) -> Asset | None:
    """The file at this path of the page, or None. Nothing outside of the folder is ever found."""
    names = segments if any(segments) else (INDEX,)
    if any(not name or name.startswith(".") or not name.isprintable() or "/" in name or "\\" in name for name in names):
        return None
    path = root.joinpath(*names)
    content_type = _TYPES.get(path.suffix)
    try:
        if content_type is None or not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
            return None
        status = path.stat()
        if status.st_size > MAX_FILE_BYTES:
            return None
        return _asset(path, content_type, (status.st_mtime_ns, status.st_size))
    except OSError:
        return None


@lru_cache(maxsize=200)
def _asset(path: Path, content_type: str, version: tuple[int, int]) -> Asset:
    """Read once for each `version` of a file."""
    del version
    content = path.read_bytes()
    return Asset(content, content_type, f'"{blake2b(content, digest_size=12).hexdigest()}"')
