"""Hosts, disk and clock of the soak run, as far as they need no privileges."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.soak import hosts as module
from benchmarks.soak.hosts import LOOPBACK, Clock, Disk, network_hosts, plain_hosts, small_disk


def test_without_namespaces_everything_has_an_address_of_its_own() -> None:
    hosts = plain_hosts(2, "Operation not permitted")
    addresses = {hosts.driver, *hosts.workers}
    assert len(addresses) == 3
    assert LOOPBACK not in addresses
    assert hosts.prefixes == ((), ())
    assert not hosts.links


def test_a_machine_that_refuses_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*command: str) -> None:
        raise subprocess.CalledProcessError(2, command, stderr=b"mount: only root\ncan do that\n")

    monkeypatch.setattr(module, "_run", refuse)
    with network_hosts(3) as hosts:
        assert hosts == plain_hosts(3, "mount: only root can do that")
    with small_disk(tmp_path, 10) as disk:
        assert not disk.is_small
        assert disk.refusal == "mount: only root can do that"
        assert disk.directory.is_dir()


def test_what_was_made_before_the_refusal_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, ...]] = []

    def refuse_namespaces(*command: str) -> None:
        told.append(command)
        if command[1] == "netns":
            raise FileNotFoundError("ip")

    monkeypatch.setattr(module, "_run", refuse_namespaces)
    with network_hosts() as hosts:
        assert not hosts.links
    bridge = f"soak{os.getpid()}"
    assert told[0] == ("ip", "link", "add", bridge, "type", "bridge")
    assert told[-1] == ("ip", "link", "del", bridge)


def test_a_disk_is_emptied_of_its_ballast_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    (tmp_path / "kept").touch()
    sizes = iter([1, 1])

    def limited(size: int) -> bytearray:
        return bytearray(size if next(sizes, 0) else _raise())

    monkeypatch.setattr(module, "bytes", limited, raising=False)
    disk.fill(1000)
    assert (tmp_path / "ballast").stat().st_size == (2 << 20) - 1000
    disk.empty()
    assert [it.name for it in tmp_path.iterdir()] == ["kept"]


def _raise() -> int:
    raise OSError(28, "No space left on device")


def test_python_processes_read_their_wall_clock_from_a_file(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock" / "offset")
    directory, variables = clock.install()

    def seen() -> tuple[float, float]:
        program = "import time; print(time.time(), time.time_ns() / 1e9)"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **variables, "PYTHONPATH": directory},
            capture_output=True,
            text=True,
            check=True,
        )
        first, second = map(float, done.stdout.split())
        return first - time.time(), second - time.time()

    assert seen() == pytest.approx((0, 0), abs=60)
    clock.set(-7200)
    assert seen() == pytest.approx((-7200, -7200), abs=60)
