"""How the readers of the Kafka source use librdkafka's consumer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Consumer

CONSUMER_SETTINGS: Mapping[str, Any] = {
    "enable_auto_commit": False,
    "enable_auto_offset_store": False,
    "auto_offset_reset": "error",
    "enable_partition_eof": True,
    "allow_auto_create_topics": False,
    # A task that is held back by those behind it does not poll.
    "max_poll_interval_ms": 24 * 3600 * 1000,
    # How long a commit waits for the coordinator of its group; readers are no members, so it has no other meaning.
    "session_timeout_ms": 6000,
    # By default a full queue makes the client pause for a second, which leaves the reader without messages.
    "fetch_queue_backoff_ms": 10,
    # A partition that is added waits until the fetch that is under way has ended.
    "fetch_wait_max_ms": 200,
    "reconnect_backoff_max_ms": 2000,
}

RESERVED: Mapping[str, str] = {
    "group.id": "use group=",
    "enable.auto.commit": "offsets are committed with checkpoints; use group=",
    "enable.auto.offset.store": "offsets are committed with checkpoints; use group=",
    "auto.offset.reset": "use start= and reset=",
    "enable.partition.eof": "the source needs it to find ends",
    "isolation.level": "use isolation=",
}


def drop(last: list[Consumer]) -> None:
    """Let go of a consumer; the list must hold the last reference to it. Returns at once.

    Both closing and freeing it wait for requests that are under way, a minute if the broker hangs, and a task that ends
    must not wait for that. There is no group that it would have to leave.
    """
    threading.Thread(target=last.clear, name="kafka-close", daemon=True).start()
