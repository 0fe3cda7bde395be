"""Drive a barrier handler by hand: events in, effects out, without a thread, clock or socket.

Run it with `python examples/drive_a_handler.py`.
"""

from __future__ import annotations

from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.barrier_events import BarrierEvent, BarrierReceived, CancelMarkerReceived, HandlerMode
from snapline.types import Barrier


def main() -> None:
    handler = AligningHandler(HandlerMode.ALIGNED, channels=2)
    events: list[tuple[int, BarrierEvent]] = [
        (10, BarrierReceived(0, Barrier(id=1, timestamp_ms=0))),
        (25, BarrierReceived(1, Barrier(id=1, timestamp_ms=0))),
        (40, BarrierReceived(1, Barrier(id=2, timestamp_ms=30))),
        (45, CancelMarkerReceived(0, checkpoint_id=2)),
    ]
    for now_ms, event in events:
        print(f"{now_ms:3} ms  {event}")
        for effect in handler.handle(event, now_ms):
            print(f"        -> {effect}")


if __name__ == "__main__":
    main()
