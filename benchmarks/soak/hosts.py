"""Hosts of the soak run: network namespaces with a link each, a small disk, and a clock that can be set."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

BRIDGE = "snapsoak"
DRIVER_ADDRESS = "10.231.77.1"
LOOPBACK = "127.0.0.1"

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

    driver: str = LOOPBACK
    workers: tuple[str, ...] = (LOOPBACK, LOOPBACK)
    prefixes: tuple[tuple[str, ...], ...] = ((), ())
    links: tuple[str, ...] = ()
    """The driver's end of each worker's link; empty without namespaces."""

    def set_link(self, number: int, *, up: bool) -> None:
        _ip("link", "set", self.links[number], "up" if up else "down")


@contextmanager
def network_hosts(workers: int = 2) -> Iterator[Hosts]:
    """Hosts with network namespaces of their own, or of this machine where they cannot be made."""
    with ExitStack() as stack:
        try:
            hosts = _make_hosts(workers, stack)
        except (OSError, subprocess.CalledProcessError):
            stack.close()
            hosts = Hosts(workers=(LOOPBACK,) * workers, prefixes=((),) * workers)
        yield hosts


def _make_hosts(workers: int, stack: ExitStack) -> Hosts:
    _ip("link", "add", BRIDGE, "type", "bridge")
    stack.callback(_ip, "link", "del", BRIDGE)
    _ip("addr", "add", f"{DRIVER_ADDRESS}/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    addresses, prefixes, links = [], [], []
    for number in range(workers):
        name, link, address = f"{BRIDGE}-{number}", f"{BRIDGE}{number}", f"10.231.77.{10 + number}"
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "del", name)
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", link, "master", BRIDGE)
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
    return Hosts(DRIVER_ADDRESS, tuple(addresses), tuple(prefixes), tuple(links))


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)  # noqa: S607


@dataclass(slots=True)
class Disk:
    """A directory on a disk of limited size that can be filled; `is_small` is False where none can be mounted."""

    directory: Path
    is_small: bool
    _ballast: list[Path] = field(default_factory=list)

    def fill(self) -> None:
        ballast = self.directory / "ballast"
        self._ballast.append(ballast)
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))

    def empty(self) -> None:
        for ballast in self._ballast:
            ballast.unlink(missing_ok=True)
        self._ballast.clear()


@contextmanager
def small_disk(root: Path, megabytes: int) -> Iterator[Disk]:
    """A disk of this size in memory, or a plain directory where it cannot be mounted."""
    directory = root / "disk"
    directory.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    is_small = (
        shutil.which("mount") is not None and not subprocess.run(mount, check=False, capture_output=True).returncode
    )
    try:
        yield Disk(directory, is_small)
    finally:
        if is_small:
            subprocess.run(["umount", "-l", str(directory)], check=True)  # noqa: S607


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock of all Python processes started after `install`."""

    file: Path

    def install(self) -> None:
        """Let every Python process that this one starts read its wall clock here."""
        directory = self.file.parent
        (directory / "sitecustomize.py").write_text(_CLOCK.replace("{variable}", CLOCK_VARIABLE))
        self.set(0)
        os.environ[CLOCK_VARIABLE] = str(self.file)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH", ""))))

    def set(self, offset_s: float) -> None:
        self.file.write_text(str(offset_s))
