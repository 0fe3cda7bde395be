"""Python programs as processes of their own, without the start of an interpreter for each.

A `ForkServer` is an interpreter that has loaded given modules and waits. Each program is a fork of it, with arguments,
environment, directory and standard streams of its own, and ends as an interpreter ends. What starts in a second or
more, because its modules take that long to load, then starts in milliseconds: tests and rounds that start the same
program many times use this.

    with ForkServer(["snapline.cli.entry"]) as server:
        program = server.start(["-m", "snapline", "list"])
        out, err = program.communicate(timeout_s=60)
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

KILL_TIMEOUT_S = 30.0
_MODULE = "snapline.devtools.kit.forked_programs"
_STREAMS = 3


class ForkedProgram:
    """A program that runs or has run; close it with `communicate`, `close`, or at the end of a `with` block."""

    def __init__(self, link: socket.socket, streams: tuple[IO[str], IO[str] | None, IO[str] | None]) -> None:
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self._link = link
        self.pid = self._number()

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None as long as it runs."""
        if self.returncode is None and select.select([self._link], [], [], 0)[0]:
            self.returncode = self._number()
        return self.returncode

    def wait(self, timeout_s: float | None) -> int:
        """Its exit code. None waits for ever, else raises `subprocess.TimeoutExpired` if it has not ended by then."""
        if self.returncode is None:
            if not select.select([self._link], [], [], timeout_s)[0]:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout_s or 0.0)
            self.returncode = self._number()
        return self.returncode

    def communicate(self, timeout_s: float) -> tuple[str, str]:
        """Read all it prints and wait for its end. Raises `subprocess.TimeoutExpired`."""
        deadline_s = time.monotonic() + timeout_s
        found = ["", ""]

        def read(index: int, stream: IO[str]) -> None:
            found[index] = stream.read()

        readers = [
            threading.Thread(target=read, args=(index, stream), daemon=True)
            for index, stream in enumerate((self.stdout, self.stderr))
            if stream is not None
        ]
        for reader in readers:
            reader.start()
        try:
            self.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            for reader in readers:
                reader.join(KILL_TIMEOUT_S)
        self.close()
        return found[0], found[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self.send_signal(signal.SIGKILL)
        self.wait(KILL_TIMEOUT_S)

    def close(self) -> None:
        """Kill it if it still runs, and close its streams."""
        self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # what it has not read any more
                    stream.close()
        self._link.close()

    def __enter__(self) -> ForkedProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _number(self) -> int:
        """The next number that the server tells: the process id first, then the exit code."""
        digits = b""
        while not digits.endswith(b"\n"):
            part = self._link.recv(1)
            assert part, "the fork server has ended"
            digits += part
        return int(digits)


class ForkServer:
    """An interpreter that has loaded `modules`. `environment` is that of the load."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        self._control = ours
        self._guard = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter
                [sys.executable, "-u", "-m", _MODULE, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**(os.environ if environment is None else environment), "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                process_group=0,  # an interrupt at the terminal is for whoever started it
            )

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        output: IO[Any] | None = None,
        errors: IO[Any] | None = None,
        has_group: bool = False,
    ) -> ForkedProgram:
        """Start a program. `arguments` are those of an interpreter: `-m MODULE ...` or `-c CODE ...`.

        It is in a process group of its own if it `has_group`.

        Its streams are pipes with text, unless `output` is a file for all it prints, or `errors` one for its standard
        error.
        """
        order = {
            "arguments": list(arguments),
            "environment": dict(os.environ if environment is None else environment),
            "directory": directory or os.getcwd(),
            "has_group": has_group,
        }
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as given:
            given.enter_context(theirs)

            def pipe(is_input: bool) -> tuple[int, IO[str]]:
                reading, writing = os.pipe()
                theirs, ours = (reading, writing) if is_input else (writing, reading)
                given.callback(os.close, theirs)
                return theirs, os.fdopen(ours, "w" if is_input else "r")

            stdin, to = pipe(is_input=True)
            stdout, back = (output.fileno(), None) if output is not None else pipe(is_input=False)
            problems = errors or output
            stderr, told = (problems.fileno(), None) if problems is not None else pipe(is_input=False)
            with self._guard:
                socket.send_fds(self._control, [b"."], [stdin, stdout, stderr, theirs.fileno()])
        ours.sendall(json.dumps(order).encode() + b"\n")
        return ForkedProgram(ours, (to, back, told))

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End it, and kill the programs that still run."""
        self._control.close()
        self._process.wait()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# In the server.


@dataclass(frozen=True, slots=True)
class _Order:
    """What a fork becomes."""

    arguments: list[str]
    environment: dict[str, str]
    directory: str
    has_group: bool


def _serve(control: socket.socket) -> _Order | None:
    """Fork for every order. Returns the order in each fork, and None once nobody can give orders any more."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    links: dict[int, socket.socket] = {}
    sources: list[Any] = [control, woken]
    while True:
        ready = select.select(sources, [], [])[0]
        if woken in ready:
            os.read(woken, 1 << 10)
            _tell_ends(links)
        if control not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, 1, _STREAMS + 1)
        if not data:
            break
        link = socket.socket(fileno=descriptors.pop())
        with link.makefile("r", encoding="utf-8") as lines:
            order = _Order(**json.loads(lines.readline()))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a server in the background ignores it
            for closing in (control, link, *links.values()):
                closing.close()
            for descriptor in (woken, wake):
                os.close(descriptor)
            for stream, descriptor in enumerate(descriptors):
                os.dup2(descriptor, stream)
                os.close(descriptor)
            return order
        for descriptor in descriptors:
            os.close(descriptor)
        if order.has_group:
            os.setpgid(pid, pid)  # before anybody can kill it
        link.sendall(f"{pid}\n".encode())
        links[pid] = link
    for pid in links:
        os.kill(pid, signal.SIGKILL)
    _tell_ends(links, 0)
    return None


def _tell_ends(links: dict[int, socket.socket], options: int = os.WNOHANG) -> None:
    while links:
        pid, status = os.waitpid(-1, options)
        if not pid:
            return
        with links.pop(pid) as link, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            link.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(order: _Order) -> None:
    """Run the program as an interpreter with these arguments would."""
    os.environ.clear()
    os.environ.update(order.environment)
    os.chdir(order.directory)
    time.tzset()
    if order.environment.get("PYTHONWARNINGS") == "error":
        import warnings  # not before: the server's own filters are those of an interpreter without the variable

        warnings.simplefilter("error")
    given = [path for path in order.environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["", *given, *(path for path in sys.path[1:] if path not in given)]
    sys.orig_argv = [sys.executable, *order.arguments]
    kind, what, *arguments = order.arguments
    if kind == "-m":
        sys.argv = [what, *arguments]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    assert kind == "-c", order.arguments
    sys.argv = [kind, *arguments]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(what, "<string>", "exec"), vars(main))  # noqa: S102  # what `python -c` does


def _main(descriptor: int, modules: Sequence[str]) -> None:
    control = socket.socket(fileno=descriptor)
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    order = _serve(control)
    if order is not None:
        os._exit(_exit_code(order))


def _exit_code(order: _Order) -> int:
    """Run the program to its end, with its threads and exit functions, as an interpreter does.

    An interpreter then takes all its modules apart, which would touch, and so copy, all memory of the server.
    """
    try:
        _become(order)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if code == 1 and error.code != 1:
            print(error.code, file=sys.stderr)
    except KeyboardInterrupt:
        raise  # it ends by the signal
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            with contextlib.suppress(BrokenPipeError):
                stream.flush()
    return code


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2:])
