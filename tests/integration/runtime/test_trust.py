"""Whole jobs whose connections are protected, through somebody in the middle, and on given ports."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.relay_kit import TO_CLIENT, TO_SERVER, Change, Relay
from tests.integration.runtime.runtime_kit import RESTART, Start, listening_ports, operator_pids, wait_for_checkpoints
from tests.unit.runtime.wire.test_listener import free_ports

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.runtime.slot.slot_provider import SlotOrder
from snapline.testing.clusters import ClusterSlots, ProcessCluster, ThreadCluster

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("launched_operators")]


def make_job(tmp_path: Path, rows: int = 20_000, **execution: object) -> sl.Job:
    settings: dict[str, object] = {"heartbeat_interval": "50ms", "heartbeat_timeout": "5s", **execution}
    job = sl.Job(
        "numbers",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="50ms", storage=tmp_path / "storage"),
        execution=sl.Execution(**settings),  # type: ignore[arg-type]
        restart=RESTART,
    )
    job.source(sl.sources.Rate(rows_per_second=20_000, rows=rows, users=7), uid="rows").key_by("user").aggregate(
        n=sl.count(), uid="count"
    ).sink(sl.sinks.Files(tmp_path / "out"), uid="out")
    return job


def counted(tmp_path: Path) -> int:
    table = read_files(tmp_path / "out").group_by("user").aggregate([("n", "max")])
    return int(sum(table["n_max"].to_pylist()))


class Watched(ThreadCluster):
    """All control connections of the first generation go through a relay."""

    def __init__(self, change: Change | None = None) -> None:
        super().__init__()
        self.relays: list[Relay] = []
        self._change = change

    def provider(self) -> ClusterSlots:
        provider = super().provider()
        start = provider.start

        def start_through_relay(order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
            self.relays.append(Relay((order.host, order.port), self._change))
            start(replace(order, port=self.relays[-1].address[1]), failed)

        provider.start = start_through_relay  # type: ignore[method-assign]
        return provider

    def close(self) -> None:
        for relay in self.relays:
            relay.close()


@pytest.mark.parametrize("encryption", sl.Encryption)
def test_only_with_tls_can_control_messages_not_be_read(
    tmp_path: Path, start: Start, encryption: sl.Encryption
) -> None:
    cluster = Watched()
    try:
        assert start(make_job(tmp_path, encryption=encryption), cluster).wait("120s") is sl.JobStatus.FINISHED
        assert counted(tmp_path) == 20_000
        passed = bytes(cluster.relays[0].passed[TO_SERVER])
        assert (sys.executable.encode() in passed) is (encryption is not sl.Encryption.TLS)
    finally:
        cluster.close()


@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT])
@pytest.mark.parametrize("encryption", [sl.Encryption.MAC, sl.Encryption.TLS])
def test_a_changed_control_message_costs_a_restart_and_nothing_else(
    tmp_path: Path, start: Start, encryption: sl.Encryption, direction: int
) -> None:
    is_armed = False

    def change(towards: int, offset: int, data: bytes) -> bytes:
        nonlocal is_armed
        if towards != direction or not is_armed:
            return data
        is_armed = False
        return data[:-1] + bytes([data[-1] ^ 1])

    cluster = Watched(change)
    try:
        handle = start(make_job(tmp_path, encryption=encryption), cluster)
        wait_for_checkpoints(handle, 1)
        is_armed = True
        assert handle.wait("120s") is sl.JobStatus.FINISHED
        assert not is_armed
        assert handle.attempt > 1
        assert counted(tmp_path) == 20_000
    finally:
        cluster.close()


def test_processes_with_tls_listen_on_given_ports_and_their_keys_are_nowhere_to_be_found(
    tmp_path: Path, start: Start
) -> None:
    first = free_ports(10)
    ports = {"driver_ports": first, "slot_ports": f"{first + 1}-{first + 9}"}
    before = listening_ports()
    handle = start(make_job(tmp_path, 200_000, encryption="tls", **ports), ProcessCluster())
    wait_for_checkpoints(handle, 2)
    assert listening_ports() - before == {first}
    listening = [listening_ports(pid) for pid in operator_pids()]
    assert len(listening) == 2
    assert set().union(*listening) <= set(range(first + 1, first + 10))
    for pid in (os.getpid(), *operator_pids()):
        for name in ("environ", "cmdline"):
            assert b"PRIVATE KEY" not in Path(f"/proc/{pid}/{name}").read_bytes()
    handle.cancel("120s")


def test_a_range_without_a_free_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(sl.ConfigurationError, match=f"driver_ports='{port}': no port of these is free"):
            make_job(tmp_path, driver_ports=port).start(ThreadCluster())
        with pytest.raises(sl.JobFailedError, match=f"slot_ports='{port}': no port of these is free"):
            make_job(tmp_path, slot_ports=port).run(ThreadCluster())


def test_a_missing_package_is_named_before_anything_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    with pytest.raises(sl.ConfigurationError, match=r"snapline\[tls\]"):
        make_job(tmp_path, encryption="tls").start(ThreadCluster())
    assert not (tmp_path / "storage").exists()
