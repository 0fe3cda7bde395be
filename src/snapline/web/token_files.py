"""Tokens that a server makes up, in files that only their owner can read."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from pathlib import Path

TOKEN_BYTES = 32


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def tokens_directory() -> Path:
    """`tokens` in the user's directory for Snapline: `$SNAPLINE_HOME`, or `~/.snapline`."""
    given = os.environ.get("SNAPLINE_HOME", "").strip()
    return (Path(given).absolute() if given else Path.home() / ".snapline") / "tokens"


def write_token(token: str, port: int) -> Path:
    """Write a token for the server at `port` of this process. Raises `OSError` if it cannot be kept from others."""
    directory = tokens_directory()
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    directory.chmod(0o700)
    path = directory / f"{socket.gethostname()}-{os.getpid()}-{port}"
    # An earlier process may have had this id; nothing that is there is written to, whatever it is.
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(token)
    return path


def remove_token(path: Path) -> None:
    """Remove the file of a server that is closed."""
    with contextlib.suppress(OSError):
        path.unlink()
