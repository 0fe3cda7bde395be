"""Ids in the paths of the REST interface: 32 hex digits, as Flink's clients expect, made from our own ids."""

from __future__ import annotations

import re
import secrets
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, TypeAlias

from msgspec import Meta

ID_BYTES = 16

RequestId: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{32}$", description="32 hex digits.")]
"""The id that a client gives to an operation."""

Place: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4000,
        pattern=r"^(?![\s\S]*[\x00-\x1f\x7f])(/|[A-Za-z][A-Za-z0-9+.-]*://)",
        description="A directory or URL, by its whole path.",
    ),
]

_HEX = re.compile(r"[0-9a-fA-F]{32}")


@lru_cache(maxsize=10_000)
def hex_id(text: str) -> str:
    """The id of a job or vertex in REST; the same in every process."""
    return blake2b(text.encode(), digest_size=ID_BYTES).hexdigest()


def is_named(given: str, own_id: str) -> bool:
    """Whether a path means the job or vertex `own_id`: by its id in REST, or by the plain one."""
    return given == own_id or given.lower() == hex_id(own_id)


def new_request_id() -> str:
    """The id of an operation that somebody has asked for."""
    return secrets.token_hex(ID_BYTES)


def is_request_id(text: str) -> bool:
    """Whether clients may use `text` as the id of an operation."""
    return _HEX.fullmatch(text) is not None


def page_url(root: str, job_id: str) -> str:
    """The page of a job on the server at `root`."""
    return f"{root}/#/jobs/{hex_id(job_id)}"
