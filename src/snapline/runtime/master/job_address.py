"""Where a running job can be reached, as its driver writes it down for commands, and where that is written."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

VERSION = 1

MAX_ADDRESS_BYTES = 16 << 10
"""A longer file is no address, and is not read."""


@dataclass(frozen=True, slots=True)
class JobAddress:
    """Where a job is served, and by which process.

    `url` is its page. `token_file` is the file, on the machine `host`, that holds the token which requests must carry;
    None if they need none, or if only the program that runs the job knows it. `storage` is the root of its checkpoints,
    None if they are in the driver's memory.
    """

    job_id: str
    name: str
    url: str
    token_file: str | None
    host: str
    pid: int
    started_ms: int
    storage: str | None

    def encode(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=2).encode()

    @classmethod
    def decode(cls, data: bytes) -> JobAddress | None:
        """Returns None if this is no address, or one of a version that is not known: anybody may have written it."""
        try:
            document = json.loads(data)
        except ValueError:
            return None
        if not isinstance(document, dict) or document.get("version") != VERSION:
            return None
        values: dict[str, Any] = {field.name: document.get(field.name) for field in fields(cls)}
        kinds = {"pid": int, "started_ms": int, "token_file": str | None, "storage": str | None}
        if not all(isinstance(value, kinds.get(name, str)) for name, value in values.items()):
            return None
        address = cls(**values)
        return address if address.job_id and "/" not in address.job_id and address.pid > 0 else None


def snapline_home() -> Path:
    """The user's directory for addresses and tokens: `$SNAPLINE_HOME`, or `~/.snapline`."""
    given = os.environ.get("SNAPLINE_HOME", "").strip()
    return Path(given).absolute() if given else Path.home() / ".snapline"


def jobs_directory() -> Path:
    """The addresses of the user's jobs whose drivers are on this machine."""
    return snapline_home() / "jobs"


def stored_address(root: str, job_id: str) -> str:
    """Where the address of a job is that has its checkpoints under `root`."""
    return f"{root.rstrip('/')}/{job_id}/monitor/address.json"
