"""Hosts of the soak run: network namespaces with a link each, a small disk, and a clock that can be set."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LOOPBACK = "127.0.0.1"
"""The driver does not listen there, but a server of Spark in its process does, and waits for silent strangers."""

_TIMEOUT_S = 20.0
_SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
while True:
    server.accept()
"""
_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"

CLOCK_VARIABLE = "SNAPLINE_SOAK_CLOCK"
_CLOCK = '''"""Shifts the wall clock of every Python process of the soak run by the seconds in a file."""

import os
import time

_path = os.environ.get("{variable}", "")
_real, _real_ns, _read = time.time, time.time_ns, [0.0, float("-inf")]


def _offset():
    if time.monotonic() - _read[1] > 0.1:
        _read[1] = time.monotonic()
        try:
            with open(_path) as file:
                _read[0] = float(file.read() or 0)
        except (OSError, ValueError):
            pass
    return _read[0]


if _path:
    time.time = lambda: _real() + _offset()
    time.time_ns = lambda: _real_ns() + int(_offset() * 1e9)
'''


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where the parts of the cluster run. `prefixes` start a command on a worker's host."""

    driver: str
    workers: tuple[str, ...]
    prefixes: tuple[tuple[str, ...], ...]
    links: tuple[str, ...] = ()
    """The driver's end of each worker's link; empty without namespaces."""

    refusal: str = ""
    """Why there are no namespaces."""

    def set_link(self, number: int, *, up: bool) -> None:
        _ip("link", "set", self.links[number], "up" if up else "down")


def plain_hosts(workers: int, refusal: str = "") -> Hosts:
    """All on this machine, with addresses of their own."""
    addresses = tuple(f"127.0.0.{3 + number}" for number in range(workers))
    return Hosts("127.0.0.2", addresses, ((),) * workers, refusal=refusal)


@contextmanager
def network_hosts(workers: int = 2) -> Iterator[Hosts]:
    """Hosts with network namespaces of their own, or of this machine where they cannot be made."""
    with ExitStack() as stack:
        try:
            hosts = _make_hosts(workers, stack)
        except (OSError, subprocess.SubprocessError) as error:
            stack.close()
            hosts = plain_hosts(workers, _text(error))
        yield hosts


def _make_hosts(workers: int, stack: ExitStack) -> Hosts:
    # Names and addresses of this process: several runs can share a machine.
    bridge, network = f"soak{os.getpid()}", f"10.231.{os.getpid() % 250 + 1}"
    driver = f"{network}.1"
    _make(stack, ("link", "add", bridge, "type", "bridge"), ("link", "del", bridge))
    _ip("addr", "add", f"{driver}/24", "dev", bridge)
    _ip("link", "set", bridge, "up")
    addresses, prefixes, links = [], [], []
    for number in range(workers):
        name, link, address = f"{bridge}-{number}", f"{bridge}.{number}", f"{network}.{10 + number}"
        _make(stack, ("netns", "add", name), ("netns", "del", name))
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", link, "master", bridge)
        _ip("link", "set", link, "up")
        for arguments in (
            ("addr", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", name, *arguments)
        addresses.append(address)
        prefixes.append(("ip", "netns", "exec", name))
        links.append(link)
    hosts = Hosts(driver, tuple(addresses), tuple(prefixes), tuple(links))
    # A firewall of the machine may hold for bridges too.
    _check_way(hosts.driver, (), hosts.prefixes)
    _check_way(hosts.workers[0], hosts.prefixes[0], ((), *hosts.prefixes[1:]))
    return hosts


def _check_way(address: str, server: tuple[str, ...], clients: Sequence[tuple[str, ...]]) -> None:
    """Raises unless a server on one host, given by its prefix, can be reached from the others."""
    command = [*server, sys.executable, "-c", _SERVE, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as listening:
        try:
            assert listening.stdout is not None
            port = listening.stdout.readline().decode().strip()
            for client in clients:
                _run(*client, sys.executable, "-c", _CONNECT, address, port)
        except subprocess.SubprocessError as error:
            raise OSError(f"{address} cannot be reached from another namespace; is there a firewall?") from error
        finally:
            listening.kill()


def _make(stack: ExitStack, how: tuple[str, ...], undo: tuple[str, ...]) -> None:
    _ip(*how)
    stack.callback(_ip, *undo)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S)


def _text(error: Exception) -> str:
    told = error.stderr.decode(errors="replace") if isinstance(error, subprocess.CalledProcessError) else ""
    return " ".join((told or str(error)).split())


@dataclass(slots=True)
class Disk:
    """A directory on a disk of limited size that can be filled. `refusal` says why it has no disk of its own."""

    directory: Path
    refusal: str = ""
    _ballast: list[Path] = field(default_factory=list)

    @property
    def is_small(self) -> bool:
        return not self.refusal

    def fill(self, free_bytes: int = 0) -> None:
        """Fill it up, except for so much."""
        ballast = self.directory / "ballast"
        self._ballast.append(ballast)
        with ballast.open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 20))
            if free_bytes:
                file.truncate(max(file.tell() - free_bytes, 0))

    def empty(self) -> None:
        for ballast in self._ballast:
            ballast.unlink(missing_ok=True)
        self._ballast.clear()


@contextmanager
def small_disk(root: Path, megabytes: int) -> Iterator[Disk]:
    """A disk of this size in memory, or a plain directory where it cannot be mounted."""
    directory = root / "disk"
    directory.mkdir(parents=True)
    try:
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory))
    except (OSError, subprocess.SubprocessError) as error:
        yield Disk(directory, _text(error))
        return
    try:
        yield Disk(directory)
    finally:
        _run("umount", "-l", str(directory))


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock of the Python processes of a run."""

    file: Path

    def install(self) -> tuple[str, dict[str, str]]:
        """What Python processes need to read their wall clock here: a directory for their path, and variables."""
        directory = self.file.parent
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "sitecustomize.py").write_text(_CLOCK.replace("{variable}", CLOCK_VARIABLE))
        self.set(0)
        return str(directory), {CLOCK_VARIABLE: str(self.file)}

    def set(self, offset_s: float) -> None:
        """Seconds that it differs from the clock of this machine."""
        self.file.write_text(str(offset_s))
