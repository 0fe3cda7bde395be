"""Ordering slots: one order at a time, whatever the provider does meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from tests.unit.runtime.runtime_bench import Bench

from snapline.config import Checkpoints, Execution, NoRestart
from snapline.devtools.simulator.kernel import Fiber
from snapline.errors import ConfigurationError
from snapline.graph.execution_plan import ExecutionPlan, PlannedOperator, PlannedVertex
from snapline.graph.job_spec import JobSpec
from snapline.runtime.master.slot_generations import CLOSE_TIMEOUT_S, SlotGenerations
from snapline.runtime.slot.slot_provider import SilentSlots, SlotOrder, no_slots


def _spec() -> JobSpec:
    operator = PlannedOperator("a", "a", None, pa.schema([]))
    plan = ExecutionPlan((PlannedVertex("a", "a", 3, None, (operator,)),), ())
    return JobSpec("job", "name", plan, {}, {}, Checkpoints(), Execution(host="node-1"), NoRestart(), b"code")


class _Provider:
    """Waits for room in `start` until it is released, unless there is room at once."""

    driver_host = "driver"
    bind_host = "127.0.0.1"

    def __init__(self, bench: Bench, *, has_room: bool) -> None:
        self.calls: list[str] = []
        self.orders: list[SlotOrder] = []
        self.error: Exception | None = None
        self.gone: str | Exception | None = None
        self._bench = bench
        self._has_room = has_room
        self._waiting: list[Fiber] = []

    def why_gone(self) -> str | None:
        if isinstance(self.gone, Exception):
            raise self.gone
        return self.gone

    def check(self, slots: int) -> None:
        pass

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        self.orders.append(order)
        self.calls.append(f"start {order.generation}")
        if self.error is not None:
            raise self.error
        if not self._has_room:
            self._waiting.append(self._bench.kernel.fiber)
            self._bench.kernel.pause()
        self.calls.append(f"started {order.generation}")
        failed("late", False)

    def release(self, timeout_s: float, silent: SilentSlots = no_slots) -> None:
        self.calls.append("release")
        if self.error is not None:
            raise self.error
        for fiber in self._waiting:
            self._bench.kernel.resume(fiber)
        self._waiting.clear()
        self._has_room = True

    def close(self) -> None:
        self.calls.append("close")
        if self.error is not None:
            raise self.error


class _Setup:
    def __init__(self, *, has_room: bool = True) -> None:
        self.bench = Bench()
        self.provider = _Provider(self.bench, has_room=has_room)
        self.failures: list[tuple[int, str, bool]] = []
        self.orders = SlotGenerations(
            self.bench.scheduler, _spec(), self.provider, lambda *failure: self.failures.append(failure)
        )
        self.orders.port = 99


def test_an_order_says_all_that_slots_need() -> None:
    setup = _Setup()
    setup.orders.order(1)
    setup.bench.run()
    assert setup.failures == [(1, "late", False)]
    order = setup.provider.orders[0]
    assert (order.generation, order.slots, order.host, order.port) == (1, 3, "driver", 99)
    assert (order.slot_host, order.shipment, order.credentials) == ("node-1", b"code", setup.orders.credentials)
    assert (order.attempt, order.page_url) == (1, "")


def test_an_order_says_for_which_attempt_it_is_and_where_the_page_is() -> None:
    setup = _Setup()
    setup.orders.page_url = "http://127.0.0.1:4300/"
    setup.orders.next_attempt = lambda: 7
    setup.orders.order(1)
    setup.bench.run()
    assert (setup.provider.orders[0].attempt, setup.provider.orders[0].page_url) == (7, "http://127.0.0.1:4300/")


def test_a_release_may_come_while_a_start_waits_and_the_next_start_comes_after_both() -> None:
    setup = _Setup(has_room=False)
    orders, released = setup.orders, list[bool]()
    orders.order(1)
    first = orders.credentials
    setup.bench.run()
    orders.release(lambda: released.append(True))
    assert not orders.credentials
    orders.order(2)
    assert orders.credentials not in (None, first)
    setup.bench.run()
    assert released == [True]
    assert setup.failures == [(1, "late", False), (2, "late", False)]
    assert setup.provider.calls == ["start 1", "release", "started 1", "start 2", "started 2"]


def test_an_order_that_was_taken_back_before_its_turn_is_never_started() -> None:
    setup = _Setup(has_room=False)
    setup.orders.order(1)
    setup.bench.run()
    setup.orders.order(2)
    setup.orders.release(lambda: None)
    setup.bench.run()
    assert setup.provider.calls == ["start 1", "release", "started 1"]


def test_a_start_that_raises_is_told_of_and_only_a_wrong_setting_is_final() -> None:
    told = []
    for error in (ConfigurationError("no such thing"), RuntimeError("no luck")):
        setup = _Setup()
        setup.provider.error = error
        setup.orders.order(1)
        setup.bench.run()
        told += setup.failures
    assert told == [
        (1, "slots could not be ordered: no such thing", True),
        (1, "slots could not be ordered: no luck", False),
    ]


def test_slots_count_as_given_back_also_if_that_raises() -> None:
    setup = _Setup()
    setup.provider.error = RuntimeError("no luck")
    done: list[str] = []
    setup.orders.release(lambda: done.append("released"))
    setup.bench.run()
    setup.orders.close(lambda: done.append("closed"))
    setup.bench.run()
    assert done == ["released", "closed"]


def test_a_provider_that_cannot_be_asked_is_not_known_to_be_gone() -> None:
    setup = _Setup()
    answers: list[str | None] = []
    for gone in (None, "the cluster is stopped", RuntimeError("no luck")):
        setup.provider.gone = gone
        setup.orders.ask_why_gone(answers.append)
        setup.bench.run()
    assert answers == [None, "the cluster is stopped", None]


def test_a_provider_that_does_not_close_is_not_waited_for_forever() -> None:
    setup = _Setup()
    done: list[float] = []
    setup.provider.close = lambda: setup.bench.kernel.sleep(60_000)  # type: ignore[method-assign]
    setup.orders.close(lambda: done.append(setup.bench.scheduler.time_s()))
    setup.bench.run()
    assert done[0] == CLOSE_TIMEOUT_S
