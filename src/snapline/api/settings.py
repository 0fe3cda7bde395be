"""How a job is carried out, apart from its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from snapline.config import Duration, Size, duration_ms, size_bytes
from snapline.errors import ConfigurationError


class StateBackend(Enum):
    """Where keyed state lives while the job runs."""

    MEMORY = "memory"
    ROCKSDB = "rocksdb"


@dataclass(frozen=True, slots=True, init=False)
class Execution:
    """How a job is carried out.

    Data
        batch_size: small batches of a channel are put together up to this size.
        flush_timeout: but none waits longer than this for others; 0 sends each at once.
        channel_memory: how much may be under way in one channel, on each of its two sides.
    State
        state_backend: "memory" or "rocksdb".
        state_directory: where RocksDB keeps its files on each machine; None is the directory for temporary files.
        state_cache_entries: how many entries of state each operator keeps in memory in front of RocksDB in a subtask.
    Watching over it
        heartbeat_interval: how often the driver and its slots tell each other that they are there.
        heartbeat_timeout: who was not heard of for so long is taken for lost.
        start_timeout: how long tasks may take to come up.
        cancel_timeout: a task that does not stop within this time is killed with its process.
        latency_interval: how often a mark is sent from the sources to the sinks to measure how long that takes; 0
            never.
        metrics_interval: how often slots tell the driver their figures.
    Network
        host: the address slots listen on and are reached at; None is the address of the Spark executor.
        allow_plaintext: go on although Spark encrypts its own connections and these are not.
    """

    batch_size_bytes: int
    flush_timeout_ms: int
    channel_memory_bytes: int
    state_backend: StateBackend
    state_directory: str | None
    state_cache_entries: int
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    start_timeout_ms: int
    cancel_timeout_ms: int
    latency_interval_ms: int
    metrics_interval_ms: int
    host: str | None
    allow_plaintext: bool

    def __init__(
        self,
        *,
        batch_size: Size = "128KB",
        flush_timeout: Duration = "10ms",
        channel_memory: Size = "512KB",
        state_backend: StateBackend | str = StateBackend.MEMORY,
        state_directory: str | None = None,
        state_cache_entries: int = 2_000_000,
        heartbeat_interval: Duration = "1s",
        heartbeat_timeout: Duration = "5s",
        start_timeout: Duration = "60s",
        cancel_timeout: Duration = "3s",
        latency_interval: Duration = "1s",
        metrics_interval: Duration = "1s",
        host: str | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        values: dict[str, object] = {
            "batch_size_bytes": size_bytes(batch_size, setting="batch_size"),
            "flush_timeout_ms": duration_ms(flush_timeout, setting="flush_timeout"),
            "channel_memory_bytes": size_bytes(channel_memory, setting="channel_memory"),
            "state_backend": _backend(state_backend),
            "state_directory": state_directory,
            "state_cache_entries": state_cache_entries,
            "heartbeat_interval_ms": duration_ms(heartbeat_interval, setting="heartbeat_interval"),
            "heartbeat_timeout_ms": duration_ms(heartbeat_timeout, setting="heartbeat_timeout"),
            "start_timeout_ms": duration_ms(start_timeout, setting="start_timeout"),
            "cancel_timeout_ms": duration_ms(cancel_timeout, setting="cancel_timeout"),
            "latency_interval_ms": duration_ms(latency_interval, setting="latency_interval"),
            "metrics_interval_ms": duration_ms(metrics_interval, setting="metrics_interval"),
            "host": host,
            "allow_plaintext": allow_plaintext,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        for name in ("batch_size_bytes", "channel_memory_bytes"):
            if getattr(self, name) < 1024:
                raise ConfigurationError(f"{name.removesuffix('_bytes')} is too small; use at least 1KB")
        entries = self.state_cache_entries
        if not isinstance(entries, int) or isinstance(entries, bool) or entries < 1:
            raise ConfigurationError(f"state_cache_entries={entries!r}: use a whole number above 0")
        if self.heartbeat_interval_ms < 10:
            raise ConfigurationError("heartbeat_interval is too short; use at least 10ms")
        if self.heartbeat_timeout_ms < 2 * self.heartbeat_interval_ms:
            raise ConfigurationError(
                f"heartbeat_timeout={self.heartbeat_timeout_ms}ms: one late heartbeat would fail the job; use at least "
                f"twice heartbeat_interval ({self.heartbeat_interval_ms}ms)"
            )
        if self.metrics_interval_ms < 10:
            raise ConfigurationError("metrics_interval is too short; use at least 10ms")


def _backend(value: StateBackend | str) -> StateBackend:
    try:
        return StateBackend(value)
    except ValueError:
        names = ", ".join(repr(backend.value) for backend in StateBackend)
        raise ConfigurationError(f"state_backend={value!r}: unknown; use one of {names}") from None
