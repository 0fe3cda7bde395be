"""Where slots come from: Spark, or anything else that can start supervisors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from snapline.runtime.wire.credentials import Credentials


@dataclass(frozen=True, slots=True)
class SlotOrder:
    """A request for slots; the driver refuses supervisors with other `credentials` or an older `generation`.

    `local_copies` is the job's directory for copies of its snapshots on each machine, None if it keeps none. `attempt`
    is the first that uses the slots; `page_url` is where the job's page is, empty if none is served.
    """

    job_id: str
    job_name: str
    generation: int
    slots: int
    host: str
    port: int
    credentials: Credentials = field(repr=False)
    shipment: bytes = field(repr=False)
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    slot_host: str | None
    local_copies: str | None = None
    attempt: int = 1
    page_url: str = ""


SilentSlots: TypeAlias = Callable[[], Collection[int]]
"""Returns the slots whose supervisors have not been heard of for too long, perhaps more of them with each call."""


def no_slots() -> Collection[int]:
    return ()


class SlotProvider(Protocol):
    """Starts one supervisor per slot, all or none, released before the next start. Methods may block; any thread."""

    @property
    def driver_host(self) -> str:
        """The address at which slots reach the driver."""

    @property
    def bind_host(self) -> str:
        """The address the driver listens on; differs from `driver_host` behind a gateway."""

    def check(self, slots: int) -> None:
        """Raise `ConfigurationError` if there cannot be this many slots or a setting forbids it."""

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        """Begin to start supervisors and return; may first wait until all of them fit.

        Any thread calls `failed(error, is_fatal)` if they cannot be started or fail; `is_fatal` means that a retry
        would not help. A failure during `release` is not one of the release: it says why slots were lost before.
        """

    def release(self, timeout_s: float, silent: SilentSlots = no_slots) -> None:
        """End all supervisors, which were asked to return; kill those that do not in time, or are silent."""

    def why_gone(self) -> str | None:
        """Why this provider can never have slots again, though another might; None if it can."""

    def close(self) -> None:
        """No order follows."""
