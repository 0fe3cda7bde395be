"""Where slots come from: Spark, or whatever else can start supervisors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SlotOrder:
    """So many slots for a job. Their supervisors connect to the driver at `host` and `port` with the `secret`.

    `generation` rises with every order of a driver, and supervisors name it; those of an older one are turned away.
    """

    job_id: str
    job_name: str
    generation: int
    slots: int
    host: str
    port: int
    secret: bytes = field(repr=False)
    shipment: bytes = field(repr=False)
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    slot_host: str | None


class SlotProvider(Protocol):
    """Starts supervisors, one for each slot, all or none. Methods may block; they are called on a thread of their own.

    One order is under way at a time: `release` comes before the next `start`.
    """

    @property
    def driver_host(self) -> str:
        """The address at which slots reach the driver."""

    @property
    def bind_host(self) -> str:
        """The address of this machine the driver listens on: another one if slots reach it through a gateway."""

    def check(self, slots: int) -> None:
        """Raise `ConfigurationError` if there can't be so many slots, or another setting is in the way."""

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        """Begin to start supervisors, and return. It may first wait until there is room for all of them.

        `failed(error, is_fatal)` is called from any thread if they can't be started or have ended without having been
        released; `is_fatal` says that another try would not help.
        """

    def release(self, timeout_s: float) -> None:
        """End what was started. Supervisors were told to return; those that do not in time are ended by force."""

    def why_gone(self) -> str | None:
        """Why there can never be slots again from here, though others may have some; none if there can."""

    def close(self) -> None:
        """Nothing will be ordered any more."""
