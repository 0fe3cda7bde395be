"""Time to live of state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from snapline.config import Duration, duration_ms
from snapline.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Ttl:
    """How long an entry lives, in processing time, after its last write, or with `refresh_on_read` its last read."""

    duration: Duration
    refresh_on_read: bool = False

    @property
    def duration_ms(self) -> int:
        milliseconds = duration_ms(self.duration, setting="ttl")
        if milliseconds == 0:
            raise ConfigurationError("ttl is 0, so entries would expire at once; use a longer one, or None")
        return milliseconds


Lifetime: TypeAlias = Ttl | Duration
"""A `Ttl`, or only its duration, such as "30min"."""


def as_ttl(ttl: Lifetime | None, what: str) -> Ttl | None:
    """Convert to `Ttl`. Raises `ConfigurationError`, which begins with `what`, for an impossible duration."""
    if ttl is None:
        return None
    made = ttl if isinstance(ttl, Ttl) else Ttl(ttl)
    try:
        # Checks the duration here, and not only where the job runs.
        return made if made.duration_ms else None
    except ConfigurationError as error:
        raise ConfigurationError(f"{what}: {error}") from error
