"""What a Spark task of a job does: it is a slot, run by a supervisor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from snapline.runtime.slot.slot_provider import SlotOrder


def make_slot_main(order: SlotOrder) -> Callable[[Iterator[Any]], Iterator[int]]:
    """The function of a barrier stage with one task for each slot; each gives its number when it is released.

    The order, with its secret, is in the closure, which only Spark moves.
    """

    def slot_main(rows: Iterator[Any]) -> Iterator[int]:
        # here, so that whatever is missing on an executor is reported as the task's failure
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
    """The host in what Spark calls a task's address, `host:port`."""
    host, _, port = address.rpartition(":")
    return (host if host and port.isdigit() else address).strip("[]")
