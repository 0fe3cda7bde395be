"""Settings of execution: what is accepted, and what is refused with which advice."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

from snapline.config.execution_settings import Encryption, Execution, StateBackend
from snapline.errors import ConfigurationError


def test_every_setting_reaches_its_own_attribute() -> None:
    given: dict[str, Any] = {
        "batch_size": "1kb",
        "flush_timeout": "1ms",
        "channel_memory": "2kb",
        "state_backend": StateBackend.ROCKSDB,
        "state_directory": "a",
        "state_memory": "64mb",
        "state_cache_entries": 3,
        "heartbeat_interval": "40ms",
        "heartbeat_timeout": "90ms",
        "executors_timeout": "4ms",
        "start_timeout": "5ms",
        "cancel_timeout": "6ms",
        "latency_interval": "7ms",
        "metrics_interval": "80ms",
        "same_error_limit": 4,
        "health_interval": "8ms",
        "show_rows": False,
        "host": "b",
        "driver_ports": "7100",
        "slot_ports": "7100-7199",
        "encryption": Encryption.TLS,
        "allow_plaintext": True,
    }
    assert set(given) == set(inspect.signature(Execution).parameters)
    execution = Execution(**given)
    for name, value in given.items():
        if hasattr(execution, name):
            assert getattr(execution, name) == value, name
    assert (execution.batch_size_bytes, execution.channel_memory_bytes) == (1 << 10, 2 << 10)
    assert (execution.flush_timeout_ms, execution.latency_interval_ms, execution.metrics_interval_ms) == (1, 7, 80)
    assert (execution.heartbeat_interval_ms, execution.heartbeat_timeout_ms) == (40, 90)
    assert (execution.start_timeout_ms, execution.cancel_timeout_ms) == (5, 6)
    assert (execution.executors_timeout_ms, execution.health_interval_ms) == (4, 8)
    assert pickle.loads(pickle.dumps(execution)) == execution != Execution()


@pytest.mark.parametrize("off", [0, None])
def test_the_limit_on_the_same_error_is_ten_and_can_be_switched_off(off: int | None) -> None:
    assert Execution().same_error_limit == 10
    assert Execution(same_error_limit=off).same_error_limit is None
    with pytest.raises(ConfigurationError, match="same_error_limit=-1: too small"):
        Execution(same_error_limit=-1)


def test_friendly_values_of_the_network() -> None:
    execution = Execution(driver_ports=7100, slot_ports=" 7100 - 7100 ".replace(" ", ""), encryption="none")
    assert (execution.driver_ports, execution.slot_ports, execution.encryption) == ("7100", "7100", Encryption.NONE)
    assert Execution().encryption is Encryption.MAC


@pytest.mark.parametrize("text", ["rocksdb", "ROCKSDB", StateBackend.ROCKSDB])
def test_the_backend_may_be_given_as_text(text: StateBackend | str) -> None:
    assert Execution(state_backend=text).state_backend is StateBackend.ROCKSDB


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"batch_size": 1023}, "batch_size=1023: too small; use at least 1KB"),
        ({"channel_memory": 0}, "channel_memory=0: too small; use at least 1KB"),
        ({"state_backend": "disk"}, "state_backend='disk': unknown; use one of MEMORY, ROCKSDB"),
        ({"state_cache_entries": 0}, "state_cache_entries=0: too small; use at least 1"),
        ({"state_memory": "63mb", "state_backend": "rocksdb"}, "state_memory=66060288: too small; use at least 64MB"),
        ({"state_memory": "2gb"}, "state_memory=2147483648: all state of the memory backend is in memory"),
        ({"state_memory": "much", "state_backend": "rocksdb"}, "state_memory='much': "),
        ({"state_cache_entries": True}, "state_cache_entries=True: not a whole number"),
        ({"heartbeat_interval": "9ms"}, "heartbeat_interval='9ms': too short; use at least 10ms"),
        ({"metrics_interval": 0}, "metrics_interval='0ms': too short; use at least 10ms"),
        ({"heartbeat_timeout": "1999ms"}, "use at least twice heartbeat_interval (1000ms)"),
        ({"encryption": "ssl"}, "encryption='ssl': unknown; use one of NONE, MAC, TLS"),
        ({"driver_ports": 0}, "driver_ports=0: neither a port nor a range of ports"),
        ({"slot_ports": "7200-7100"}, "slot_ports='7200-7100': neither a port nor a range"),
        ({"slot_ports": "7100-70000"}, "from 1 to 65535"),
        ({"start_timeout": 60}, "start_timeout=60: a bare number has no unit"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Execution(**settings)
    assert complaint in str(caught.value)
