"""The Spark task behind a slot: it runs a supervisor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from snapline.runtime.slot.slot_provider import SlotOrder


def make_slot_main(order: SlotOrder) -> Callable[[Iterator[Any]], Iterator[int]]:
    """Returns the function of a barrier stage with one task per slot; each yields its number when released.

    The closure holds the order, with its secret; only Spark transports it.
    """

    def slot_main(rows: Iterator[Any]) -> Iterator[int]:
        # Imported here, so that a missing package on an executor is reported as the task's failure.
        from pyspark import BarrierTaskContext

        from snapline.runtime.slot.supervisor import Supervisor
        from snapline.spark.slot_task import executor_host

        for _ in rows:
            pass
        context: Any = BarrierTaskContext.get()
        slot: int = context.partitionId()
        host = order.slot_host or executor_host(context.getTaskInfos()[slot].address)
        Supervisor(order, slot, host, context.taskAttemptId()).run()
        yield slot

    return slot_main


def executor_host(address: str) -> str:
    """Returns the host of a task's address, `host:port`."""
    host, _, port = address.rpartition(":")
    return (host if host and port.isdigit() else address).strip("[]")
