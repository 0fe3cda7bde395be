"""SlotGenerations to the provider of slots: one generation after the other, each with a secret of its own."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

from snapline.errors import ConfigurationError
from snapline.graph.job_spec import JobSpec
from snapline.runtime.master.background_calls import Background, post_to
from snapline.runtime.slot.slot_provider import SlotOrder, SlotProvider

SECRET_BYTES = 32
RELEASE_TIMEOUT_S = 3.0
"""How long supervisors may take to return before they are ended by force."""

CLOSE_TIMEOUT_S = 30.0

_log = logging.getLogger(__name__)

Failed = Callable[[int, str, bool], None]
"""Told on the loop: which generation has failed, why, and whether another try would not help."""


class SlotGenerations:
    """Calls the provider on threads. `generation` is the one that was ordered last, `secret` none after its release.

    A release may come while a start still waits for room; the next start comes after both.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, spec: JobSpec, provider: SlotProvider, host: str, failed: Failed
    ) -> None:
        self.generation = 0
        self.secret: bytes | None = None
        self.port = 0
        self._loop = loop
        self._spec = spec
        self._provider = provider
        self._host = host
        self._failed = failed
        self._background = Background(loop, 2, "snapline-provider")
        self._is_starting = False
        self._is_waiting = False

    def order(self) -> None:
        """Order slots anew; nothing may be left of the last order but a start that has not come back."""
        self.generation += 1
        self.secret = secrets.token_bytes(SECRET_BYTES)
        if self._is_starting:
            self._is_waiting = True
        else:
            self._start()

    def _start(self) -> None:
        spec, generation = self._spec, self.generation
        assert self.secret is not None
        order = SlotOrder(
            job_id=spec.job_id,
            job_name=spec.name,
            generation=generation,
            slots=spec.plan.slots,
            host=self._host,
            port=self.port,
            secret=self.secret,
            shipment=spec.shipment,
            heartbeat_interval_ms=spec.execution.heartbeat_interval_ms,
            heartbeat_timeout_ms=spec.execution.heartbeat_timeout_ms,
            slot_host=spec.execution.host,
        )

        def tell(error: str, is_fatal: bool) -> None:
            post_to(self._loop, self._failed, generation, error, is_fatal)

        def raised(error: Exception) -> None:
            self._started()
            if not isinstance(error, ConfigurationError):
                _log.warning("slots could not be ordered", exc_info=error)
            self._failed(generation, f"slots could not be ordered: {error}", isinstance(error, ConfigurationError))

        self._is_starting = True
        self._background.run(lambda: self._provider.start(order, tell), lambda _: self._started(), raised)

    def _started(self) -> None:
        self._is_starting = False
        if self._is_waiting:
            self._is_waiting = False
            if self.secret is not None:
                self._start()

    def release(self, done: Callable[[], None]) -> None:
        """Give the slots back; `done` is called when none is left."""
        self.secret = None

        def raised(error: Exception) -> None:
            _log.warning("slots could not be given back", exc_info=error)
            done()

        self._background.run(lambda: self._provider.release(RELEASE_TIMEOUT_S), lambda _: done(), raised)

    async def why_gone(self) -> str | None:
        """Why there can never be slots again from this provider."""
        return await self._background.call(self._provider.why_gone)

    async def close(self) -> None:
        """Nothing will be ordered any more."""
        self.secret = None
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._background.call(self._provider.close)
        except Exception:
            _log.exception("the provider of slots could not be closed")

    def close_threads(self) -> None:
        if not self._background.close(CLOSE_TIMEOUT_S):
            _log.warning("the provider of slots does not come back; a thread of it is left behind")
