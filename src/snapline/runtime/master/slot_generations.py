"""Orders slots: one generation after the other, each with its own credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from snapline.errors import ConfigurationError
from snapline.graph.job_spec import JobSpec
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.runtime.slot.slot_provider import SilentSlots, SlotOrder, SlotProvider, no_slots
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.storage.local_copies import job_directory

RELEASE_TIMEOUT_S = 3.0
"""How long supervisors may take to return before they are killed."""

CLOSE_TIMEOUT_S = 30.0

_log = JobLogger(__name__)

Failed: TypeAlias = Callable[[int, str, bool], None]
"""Called on the loop with the failed generation, the reason, and whether a retry is useless."""


class SlotGenerations:
    """Calls the provider on threads. `credentials` are the newest generation's, None after its release.

    `port`, `page_url` and `next_attempt`, which is asked on the loop, go into the orders.
    A release may come while a start still waits for room; the next start comes after both.
    """

    def __init__(self, scheduler: Scheduler, spec: JobSpec, provider: SlotProvider, failed: Failed) -> None:
        self.credentials: Credentials | None = None
        self.port = 0
        self.page_url = ""
        self.next_attempt: Callable[[], int] = lambda: 1
        self._spec = spec
        self._provider = provider
        self._failed = failed
        self._scheduler = scheduler
        self._calls = BackgroundCalls(scheduler, 2, "snapline-provider")
        self._generation = 0
        self._is_starting = False
        self._is_waiting = False

    def order(self, generation: int) -> None:
        """Order slots. The previous order must be released; its start may still be running."""
        self._generation = generation
        self.credentials = new_credentials(self._spec.execution.encryption)
        if self._is_starting:
            self._is_waiting = True
        else:
            self._start()

    def _start(self) -> None:
        spec, generation = self._spec, self._generation
        local = spec.checkpoints.local_directory
        assert self.credentials is not None
        order = SlotOrder(
            job_id=spec.job_id,
            job_name=spec.name,
            generation=generation,
            slots=spec.plan.slots,
            host=self._provider.driver_host,
            port=self.port,
            credentials=self.credentials,
            shipment=spec.shipment,
            heartbeat_interval_ms=spec.execution.heartbeat_interval_ms,
            heartbeat_timeout_ms=spec.execution.heartbeat_timeout_ms,
            slot_host=spec.execution.host,
            local_copies=None if local is None else str(job_directory(local, spec.job_id)),
            attempt=self.next_attempt(),
            page_url=self.page_url,
        )

        def failed(error: str, is_fatal: bool) -> None:
            self._scheduler.post(self._failed, generation, error, is_fatal)

        def raised(error: Exception) -> None:
            self._started()
            if not isinstance(error, ConfigurationError):
                _log.warning("slots could not be ordered", exc_info=error)
            self._failed(generation, f"slots could not be ordered: {error}", isinstance(error, ConfigurationError))

        self._is_starting = True
        self._calls.run(lambda: self._provider.start(order, failed), lambda _: self._started(), raised)

    def _started(self) -> None:
        self._is_starting = False
        if self._is_waiting:
            self._is_waiting = False
            if self.credentials is not None:
                self._start()

    def release(self, done: Callable[[], None], silent: SilentSlots = no_slots) -> None:
        """Return the slots; calls `done` when none is left. Those that are `silent` will not return by themselves."""
        self.credentials = None

        def raised(error: Exception) -> None:
            _log.warning("slots could not be given back", exc_info=error)
            done()

        self._calls.run(lambda: self._provider.release(RELEASE_TIMEOUT_S, silent), lambda _: done(), raised)

    def ask_why_gone(self, done: Callable[[str | None], None]) -> None:
        """`done` gets why there can never be slots again from this provider, or None."""

        def raised(error: Exception) -> None:
            _log.warning("the slot provider could not be asked", exc_info=error)
            done(None)

        self._calls.run(self._provider.why_gone, done, raised)

    def close(self, done: Callable[[], None]) -> None:
        """Order nothing any more; calls `done` when the provider is closed or takes too long."""
        self.credentials = None

        def closed(_: object) -> None:
            timer.cancel()
            done()

        def raised(error: Exception) -> None:
            _log.warning("the slot provider could not be closed", exc_info=error)
            closed(None)

        timer = self._scheduler.call_later(CLOSE_TIMEOUT_S, done)
        self._calls.run(self._provider.close, closed, raised)

    def close_threads(self) -> None:
        if not self._calls.close(CLOSE_TIMEOUT_S):
            _log.warning("the slot provider does not return; its thread is left behind")
