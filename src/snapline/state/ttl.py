"""Time to live of state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from snapline.config import Duration, duration_ms
from snapline.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Ttl:
    """How long an entry lives after it was last written, or with `refresh_on_read` last read. Processing time."""

    duration: Duration
    refresh_on_read: bool = False

    @property
    def duration_ms(self) -> int:
        milliseconds = duration_ms(self.duration, setting="ttl")
        if milliseconds == 0:
            raise ConfigurationError("ttl is 0, so nothing would live; use a longer one, or none")
        return milliseconds


Lifetime: TypeAlias = "Ttl | Duration"
"""How long state lives: a `Ttl`, or only its duration, such as "30min"."""


def as_ttl(ttl: Lifetime | None, what: str) -> Ttl | None:
    """The time to live that is meant; `ConfigurationError`, which begins with `what`, if it is none."""
    if ttl is None:
        return None
    made = ttl if isinstance(ttl, Ttl) else Ttl(ttl)
    try:
        # With the milliseconds it says whether it is one, here and not where the job runs.
        return made if made.duration_ms else None
    except ConfigurationError as error:
        raise ConfigurationError(f"{what}: {error}") from error
