"""What the protocol core costs: `python -m benchmarks.protocol [--json]`.

The machines handle events per barrier and per acknowledgement, never per record. Each cost is compared with
decoding the same event from JSON in the same run, the least that any system that sends events has to pay.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from snapline.config import Checkpoints
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.barrier_events import BarrierReceived, HandlerMode
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.checkpoint_plan import Edge
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.messages import Acknowledge
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import StoredObject, SubtaskState, VertexInfo
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.types import Barrier, ExecutionId, SubtaskId, TaskStatus

REPEATS = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """Returns the best of several rounds, per event, and its ratio to the cost of decoding the event."""

    events: int
    microseconds: float
    decoding_microseconds: float
    ratio: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.protocol", description="Cost of the protocol core.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    costs = {
        "barrier through an aligned handler, 16 channels": barriers(channels=16, checkpoints=500),
        "acknowledgement, 100 subtasks": acknowledgements(parallelism=50),
        "acknowledgement, 10,000 subtasks": acknowledgements(parallelism=5_000),
    }
    if options.json:
        conditions = {"python": platform.python_version(), "machine": platform.machine(), "repeats": REPEATS}
        print(json.dumps({"costs": {name: asdict(cost) for name, cost in costs.items()}, "conditions": conditions}))
    else:
        for name, cost in costs.items():
            print(f"{name:<50}{cost.microseconds:8.2f} us   {cost.ratio:6.2f} x decoding it from JSON")
    return 0


def barriers(channels: int, checkpoints: int) -> Cost:
    """Returns barriers of many checkpoints, channel after channel."""
    events = [
        BarrierReceived(channel, Barrier(checkpoint_id, 0))
        for checkpoint_id in range(1, checkpoints + 1)
        for channel in range(channels)
    ]

    def run() -> None:
        handler = AligningHandler(HandlerMode.ALIGNED, channels)
        for event in events:
            handler.handle(event, 0)

    return _cost(run, len(events), {"channel": 1, "id": 17, "timestamp_ms": 0, "kind": "ALIGNED"})


def acknowledgements(parallelism: int) -> Cost:
    """Measures a checkpoint of two vertices from its trigger to its completion."""
    vertices = tuple(VertexInfo(name, parallelism, 32_768, (name,)) for name in ("source", "sink"))
    shape = JobShape(vertices, (Edge("source", "sink", pointwise=False),))
    config = Checkpoints(interval="1s", storage="memory")
    metrics = SubtaskMetrics(checkpointed_bytes=100)
    events = [
        Acknowledge(
            ExecutionId(SubtaskId(vertex.id, index), 1),
            1,
            {vertex.id: SubtaskState(keyed=(), operator=(), inputs=(), outputs=())},
            metrics,
        )
        for vertex in vertices
        for index in range(parallelism)
    ]

    def run() -> None:
        coordinator = CheckpointCoordinator(
            1, config, shape, Carryover.fresh(config), RetainedSnapshots(config.retained)
        )
        for vertex in vertices:
            for subtask in vertex.subtasks():
                coordinator.handle(c.TaskStatusChanged(subtask, TaskStatus.RUNNING), 0)
        coordinator.handle(c.JobRunning(0.0), 0)
        coordinator.handle(c.TimerFired(c.Timer(c.TimerKind.PERIODIC)), 0)
        coordinator.handle(c.IdReserved("periodic-1-1", 1), 0)
        coordinator.handle(c.LocationCreated(1, "chk-1"), 0)
        for event in events:
            effects = coordinator.handle(event, 1)
        assert any(isinstance(effect, c.WriteMetadata) for effect in effects)

    state = asdict(StoredObject("job/chk-1/source-0", 100))
    message = {
        "vertex": "source",
        "index": 1,
        "attempt": 1,
        "checkpoint_id": 1,
        "state": state,
        "metrics": asdict(metrics),
    }
    return _cost(run, len(events), message)


def _cost(run: Callable[[], None], events: int, message: object) -> Cost:
    encoded = json.dumps(message)

    def decode() -> None:
        for _ in range(events):
            json.loads(encoded)

    handling, decoding = _best(run) / events, _best(decode) / events
    return Cost(events, round(handling * 1e6, 3), round(decoding * 1e6, 3), round(handling / decoding, 2))


def _best(call: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


if __name__ == "__main__":
    sys.exit(main())
