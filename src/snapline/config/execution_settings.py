"""How a job runs, apart from its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from snapline.config.setting_checks import Ports, Settings, count, flag, member, ports, wrong
from snapline.config.units import Duration, Size, duration_ms, size_bytes

_LEAST_STATE_MEMORY = 64 << 20
_MOST_CACHE_ENTRIES = 2**31 - 1
_NO_LIMIT = (
    "all state of the memory backend is in memory, and has no limit; set state_backend='rocksdb', which keeps on disk "
    "what does not fit, or leave out state_memory"
)


class StateBackend(Enum):
    """Where keyed state lives while the job runs."""

    MEMORY = "memory"
    ROCKSDB = "rocksdb"


class Encryption(Enum):
    """What protects the connections between a job's processes, once both ends have proved that they belong to it."""

    NONE = "none"
    """Nothing: who sits on the network can read and change what passes."""

    MAC = "mac"
    """Every message carries a code that shows changes; it can still be read on its way."""

    TLS = "tls"
    """TLS 1.3: nothing can be read or changed on its way. Needs the extra `tls` on the driver."""


@dataclass(frozen=True, slots=True, init=False)
class Execution(Settings):
    """How a job runs.

    Data
        batch_size: small batches of a channel are merged up to this size.
        flush_timeout: the longest a batch waits to be merged while its task has more to do; 0 sends each at once.
        channel_memory: the most data one channel may hold on each of its two sides.
    State
        state_backend: "memory" or "rocksdb".
        state_directory: where RocksDB keeps its files on each machine; None is the system's temporary directory.
        state_memory: the most memory that state in RocksDB takes in each slot, for all operators together; None limits
            only the number of entries.
        state_cache_entries: state entries that each operator caches in memory in front of RocksDB, per subtask; None is
            2000000, or no limit if there is one for memory.
    Supervision
        heartbeat_interval: time between heartbeats of the driver and its slots.
        heartbeat_timeout: a slot or driver that has been silent for this long is considered lost.
        executors_timeout: how long a job waits for Spark's executors, at its start and when some are lost.
        start_timeout: how long tasks may take to start.
        cancel_timeout: a task that does not stop within this time is killed with its process.
        latency_interval: time between the latency markers that sources send to sinks; 0 sends none.
        metrics_interval: time between the metric reports of a slot to the driver.
        same_error_limit: the job fails, whatever its restart strategy, when the same error of its code happens for this
            many times without a completed checkpoint in between; 0 or None sets no limit.
        health_interval: time between the lines that the driver logs about a running job (level INFO); 0 logs none.
    Errors
        show_rows: whether messages, logs and traces may show the row that failed, and what the exception says about it.
    Network
        host: the address slots listen on and are reached at; None is the address of the Spark executor.
        driver_ports: the port the driver listens on, 7100, or a range to take the first free one of, "7100-7109"; None
            lets the system choose.
        slot_ports: the same for the data ports of operator processes, of which each slot of a machine needs one.
        encryption: "mac" shows changes of messages, "tls" also hides their contents, "none" does neither.
        allow_plaintext: run connections without TLS even if Spark encrypts its own.
    """

    batch_size_bytes: int
    flush_timeout_ms: int
    channel_memory_bytes: int
    state_backend: StateBackend
    state_directory: str | None
    state_memory_bytes: int | None
    state_cache_entries: int
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    executors_timeout_ms: int
    start_timeout_ms: int
    cancel_timeout_ms: int
    latency_interval_ms: int
    metrics_interval_ms: int
    same_error_limit: int | None
    health_interval_ms: int
    show_rows: bool
    host: str | None
    driver_ports: str | None
    slot_ports: str | None
    encryption: Encryption
    allow_plaintext: bool

    def __init__(
        self,
        *,
        batch_size: Size = "128KB",
        flush_timeout: Duration = "10ms",
        channel_memory: Size = "512KB",
        state_backend: StateBackend | str = StateBackend.MEMORY,
        state_directory: str | None = None,
        state_memory: Size | None = None,
        state_cache_entries: int | None = None,
        heartbeat_interval: Duration = "1s",
        heartbeat_timeout: Duration = "5s",
        executors_timeout: Duration = "60s",
        start_timeout: Duration = "60s",
        cancel_timeout: Duration = "3s",
        latency_interval: Duration = "1s",
        metrics_interval: Duration = "1s",
        same_error_limit: int | None = 10,
        health_interval: Duration = "1min",
        show_rows: bool = True,
        host: str | None = None,
        driver_ports: Ports | None = None,
        slot_ports: Ports | None = None,
        encryption: Encryption | str = Encryption.MAC,
        allow_plaintext: bool = False,
    ) -> None:
        self._fill(
            batch_size_bytes=size_bytes(batch_size, setting="batch_size"),
            flush_timeout_ms=duration_ms(flush_timeout, setting="flush_timeout"),
            channel_memory_bytes=size_bytes(channel_memory, setting="channel_memory"),
            state_backend=member(StateBackend, state_backend, "state_backend"),
            state_directory=state_directory,
            state_memory_bytes=None if state_memory is None else size_bytes(state_memory, setting="state_memory"),
            state_cache_entries=_cache_entries(state_cache_entries, has_memory=state_memory is not None),
            heartbeat_interval_ms=duration_ms(heartbeat_interval, setting="heartbeat_interval"),
            heartbeat_timeout_ms=duration_ms(heartbeat_timeout, setting="heartbeat_timeout"),
            executors_timeout_ms=duration_ms(executors_timeout, setting="executors_timeout"),
            start_timeout_ms=duration_ms(start_timeout, setting="start_timeout"),
            cancel_timeout_ms=duration_ms(cancel_timeout, setting="cancel_timeout"),
            latency_interval_ms=duration_ms(latency_interval, setting="latency_interval"),
            metrics_interval_ms=duration_ms(metrics_interval, setting="metrics_interval"),
            same_error_limit=None
            if same_error_limit is None
            else count(same_error_limit, "same_error_limit", least=0) or None,
            health_interval_ms=duration_ms(health_interval, setting="health_interval"),
            show_rows=flag(show_rows, "show_rows"),
            host=host,
            driver_ports=ports(driver_ports, "driver_ports"),
            slot_ports=ports(slot_ports, "slot_ports"),
            encryption=member(Encryption, encryption, "encryption"),
            allow_plaintext=allow_plaintext,
        )
        self._check()

    def _check(self) -> None:
        for name, size in (("batch_size", self.batch_size_bytes), ("channel_memory", self.channel_memory_bytes)):
            if size < 1024:
                raise wrong(name, size, "too small; use at least 1KB")
        if self.state_memory_bytes is not None:
            if self.state_backend is StateBackend.MEMORY:
                raise wrong("state_memory", self.state_memory_bytes, _NO_LIMIT)
            if self.state_memory_bytes < _LEAST_STATE_MEMORY:
                raise wrong("state_memory", self.state_memory_bytes, "too small; use at least 64MB")
        for name in ("heartbeat_interval", "metrics_interval"):
            interval_ms = getattr(self, f"{name}_ms")
            if interval_ms < 10:
                raise wrong(name, f"{interval_ms}ms", "too short; use at least 10ms")
        if self.heartbeat_timeout_ms < 2 * self.heartbeat_interval_ms:
            raise wrong(
                "heartbeat_timeout",
                f"{self.heartbeat_timeout_ms}ms",
                "one late heartbeat would fail the job; use at least twice heartbeat_interval "
                f"({self.heartbeat_interval_ms}ms)",
            )


def _cache_entries(given: int | None, *, has_memory: bool) -> int:
    if given is None:
        return _MOST_CACHE_ENTRIES if has_memory else 2_000_000
    return count(given, "state_cache_entries", least=1, most=None)
