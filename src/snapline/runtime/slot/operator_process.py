"""The operator process of a slot: joins the job and runs the tasks the driver deploys to it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable

from snapline.errors import ConfigurationError, PeerError, SnaplineError
from snapline.graph.shipment import unpack
from snapline.runtime.job_logs import JobLogFilter, JobLogger, JsonLogFormatter, set_log_fields
from snapline.runtime.network.admission import entering_limit
from snapline.runtime.network.descriptors import require_descriptors
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.heartbeat import HeartbeatSettings
from snapline.runtime.scheduler.system_threads import SystemThreads
from snapline.runtime.slot import bootstrap as boot
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.control_link import ControlLink, cannot_reach, connect
from snapline.runtime.slot.late_pandas import put_off_pandas
from snapline.runtime.slot.process_directory import ProcessDirectory
from snapline.runtime.slot.start_problems import listening_failed, start_problem
from snapline.runtime.slot.task_host import TaskHost
from snapline.runtime.task.task_environment import TaskEnvironment
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.auth import CONTROL, DRIVER, Route
from snapline.storage.objects.file_objects import FileObjects

_log = JobLogger(__name__)

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may hold the interpreter while others wait; the default adds 5 ms to every message."""

STATE_THREADS = 4
CHANNEL_THREADS = 2
BACKGROUND_THREADS = 8
MAX_LOG_LINES = 50

LOG_FORMAT = "SNAPLINE_LOG_FORMAT"
"""Environment variable: `json` makes the lines of an operator process JSON objects."""

_TEXT = "%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"

_GARBAGE_THRESHOLD = 100_000
"""Garbage-collection threshold: one batch of rows allocates this many objects, and cycles are rare."""


class OperatorProcess:
    """Serves in `run` until the driver is lost or `stop` is called. `log_text` returns its last log lines."""

    def __init__(self, bootstrap: Bootstrap, log_text: Callable[[], str] = str) -> None:
        self._bootstrap = bootstrap
        self._log_text = log_text
        self._guard = threading.Lock()
        self._host: TaskHost | None = None
        self._is_stopped = False

    def run(self) -> None:
        """Join the job and serve. Raises `PeerError` if the driver cannot be reached or the job cannot run here."""
        bootstrap = self._bootstrap
        set_log_fields(job_id=bootstrap.job_id)
        address = (bootstrap.driver_host, bootstrap.driver_port)
        try:
            route = Route(CONTROL, bootstrap.generation, bootstrap.slot, DRIVER)
            link = connect(address, bootstrap.credentials, route, m.decode_to_process, "driver-reader")
        except OSError as error:
            raise PeerError(cannot_reach(address, error)) from error
        try:
            shipment = unpack(bootstrap.shipment)
            set_log_fields(job=shipment.job_name)
            shipment.checkpoints.storage_options.check()
            slots, regions = shipment.plan.slots, len(shipment.plan.regions.all)
            connections = slots * regions
            require_descriptors(connections + entering_limit(connections), f"each process of a job with {slots} slots")
        except Exception as error:
            raise _unable(link, start_problem(error)) from error
        settings = shipment.execution
        try:
            exchange = Exchange(
                bootstrap.host,
                bootstrap.credentials,
                ports=settings.slot_ports,
                slot=bootstrap.slot,
                slots=slots,
                regions=regions,
                batch_size_bytes=settings.batch_size_bytes,
                flush_timeout_ms=settings.flush_timeout_ms,
                channel_memory_bytes=settings.channel_memory_bytes,
                heartbeat=HeartbeatSettings(bootstrap.heartbeat_interval_ms, bootstrap.heartbeat_timeout_ms),
            )
        except ConfigurationError as error:
            raise _unable(link, str(error)) from error
        except OSError as error:
            raise _unable(link, listening_failed(bootstrap.host, error)) from error
        threads = SystemThreads()
        state = threads.executor(STATE_THREADS, "state")
        channels = threads.executor(CHANNEL_THREADS, "in-flight")
        background = threads.executor(BACKGROUND_THREADS, "background")
        host = TaskHost(
            bootstrap,
            shipment,
            exchange,
            FileObjects(
                options=shipment.checkpoints.storage_options,
                no_links_below=shipment.known_directories,
                directory_mode=shipment.checkpoints.directory_mode,
            ),
            TaskEnvironment(threads, state, channels, background),
            link,
            ProcessDirectory(settings.state_directory),
            self._log_text,
        )
        with self._guard:
            self._host = host
            if self._is_stopped:
                host.stop()
        try:
            host.run()
        finally:
            for pool in (state, channels, background):
                pool.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """Make `run` return. Any thread."""
        with self._guard:
            self._is_stopped = True
            if self._host is not None:
                self._host.stop()


def _unable(link: ControlLink, problem: str) -> PeerError:
    """Tell the driver why this process cannot run the job; returns the error to end with."""
    link.send(m.ProcessUnable(problem))
    link.close()
    return PeerError(problem)


class LogLines(logging.Handler):
    """Keeps the last log lines of a process, for failure reports."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[str] = deque(maxlen=MAX_LOG_LINES)
        self.setFormatter(logging.Formatter(_TEXT))

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def text(self) -> str:
        return "\n".join(self._lines)


def set_up_logs(lines: LogLines) -> None:
    """Write warnings to standard error, as text or as JSON, and keep the last lines of all that is logged."""
    stream = logging.StreamHandler(sys.stderr)
    is_json = os.environ.get(LOG_FORMAT, "").strip().lower() == "json"
    stream.setFormatter(JsonLogFormatter() if is_json else logging.Formatter(_TEXT))
    for handler in (stream, lines):
        handler.addFilter(JobLogFilter())
    logging.basicConfig(level=logging.WARNING, handlers=[stream, lines])


def main() -> None:
    """Entry point; reads its bootstrap from standard input."""
    stream = sys.stdin.buffer
    bootstrap = boot.read(stream)
    boot.die_with_parent(bootstrap.parent_pid)
    boot.watch_parent(stream, lambda: os._exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = bootstrap.sys_path
    put_off_pandas()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, *gc.get_threshold()[1:])
    lines = LogLines()
    set_up_logs(lines)
    status = 0
    try:
        OperatorProcess(bootstrap, lines.text).run()
    except SnaplineError as error:
        _log.error("the operator process of slot %d ends: %s", bootstrap.slot, error)
        status = 1
    except BaseException:
        _log.exception("the operator process of slot %d ends on an unexpected error", bootstrap.slot)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of user code must not keep the process alive.
    os._exit(status)


if __name__ == "__main__":
    main()
