"""Ordering slots: one order at a time, whatever the provider does meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pyarrow as pa

from snapline.config import Checkpoints, Execution, NoRestart
from snapline.errors import ConfigurationError
from snapline.graph.execution_plan import ExecutionPlan, PlannedOperator, PlannedVertex
from snapline.graph.job_spec import JobSpec
from snapline.runtime.master.slot_generations import SlotGenerations
from snapline.runtime.slot.slot_provider import SlotOrder


def _spec() -> JobSpec:
    operator = PlannedOperator("a", "a", None, pa.schema([]))
    plan = ExecutionPlan((PlannedVertex("a", "a", 3, None, (operator,)),), ())
    return JobSpec("job", "name", plan, {}, {}, Checkpoints(), Execution(host="node-1"), NoRestart(), b"code")


class _Provider:
    """Waits for room in `start` until it is released."""

    driver_host = "127.0.0.1"
    bind_host = "127.0.0.1"

    def why_gone(self) -> str | None:
        return None

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.orders: list[SlotOrder] = []
        self.error: Exception | None = None
        self.has_room = threading.Event()
        self.has_started = threading.Event()

    def check(self, slots: int) -> None:
        pass

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        self.orders.append(order)
        self.calls.append(f"start {order.generation}")
        if self.error is not None:
            raise self.error
        self.has_started.set()
        assert self.has_room.wait(5)
        self.calls.append(f"started {order.generation}")
        failed("late", False)

    def release(self, timeout_s: float) -> None:
        assert self.has_started.wait(5)
        self.calls.append("release")
        self.has_room.set()

    def close(self) -> None:
        self.calls.append("close")


def _run(provider: _Provider, steps: Callable[[SlotGenerations, list[tuple[int, str, bool]]], object]) -> list[object]:
    failures: list[tuple[int, str, bool]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        orders = SlotGenerations(loop, _spec(), provider, "driver", lambda *failure: failures.append(failure))
        orders.port = 99
        async with asyncio.timeout(5):
            await steps(orders, failures)  # type: ignore[misc]
            await orders.close()
        orders.close_threads()

    asyncio.run(main())
    return list(failures)


def test_an_order_says_all_that_slots_need() -> None:
    provider = _Provider()
    provider.has_room.set()

    async def steps(orders: SlotGenerations, failures: list[tuple[int, str, bool]]) -> None:
        orders.order()
        while not failures:
            await asyncio.sleep(0.001)

    assert _run(provider, steps) == [(1, "late", False)]
    order = provider.orders[0]
    assert (order.generation, order.slots, order.host, order.port) == (1, 3, "driver", 99)
    assert (order.slot_host, order.shipment, len(order.secret)) == ("node-1", b"code", 32)


def test_a_release_may_come_while_a_start_waits_and_the_next_start_comes_after_both() -> None:
    provider = _Provider()

    async def steps(orders: SlotGenerations, failures: list[tuple[int, str, bool]]) -> None:
        orders.order()
        first = orders.secret
        released = asyncio.Event()
        orders.release(released.set)
        secrets = [first, orders.secret]
        orders.order()
        assert secrets[1] is None
        assert orders.secret not in secrets
        await released.wait()
        while len(failures) < 2:
            await asyncio.sleep(0.001)

    assert _run(provider, steps) == [(1, "late", False), (2, "late", False)]
    assert provider.calls == ["start 1", "release", "started 1", "start 2", "started 2", "close"]


def test_a_start_that_raises_is_told_of() -> None:
    provider = _Provider()
    provider.error = ConfigurationError("no such thing")

    async def steps(orders: SlotGenerations, failures: list[tuple[int, str, bool]]) -> None:
        orders.order()
        while not failures:
            await asyncio.sleep(0.001)

    assert _run(provider, steps) == [(1, "slots could not be ordered: no such thing", True)]
