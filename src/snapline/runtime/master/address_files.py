"""Writes down where a running job can be reached: beside its checkpoints, and in the user's home."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from snapline.graph.job_spec import JobSpec
from snapline.runtime.master.job_address import JobAddress, jobs_directory, stored_address
from snapline.runtime.scheduler.system_threads import wall_clock_ms
from snapline.storage.objects.object_paths import directory_location
from snapline.storage.objects.object_store import ObjectStore

PATIENCE_S = 10.0
"""How long the start or the end of a job waits for its address to be written or removed."""

_log = logging.getLogger(__name__)


def storage_root(spec: JobSpec) -> str | None:
    """The directory that the job's settings name, in a form that means the same in every process; None for memory."""
    storage = spec.checkpoints.storage
    if storage is None:
        return None
    is_local_path = "://" not in storage and directory_location(storage).scheme == "file"
    return (os.path.abspath(storage) if is_local_path else storage).rstrip("/")


class AddressFiles:
    """The files that hold the address of one job. Nothing here fails a job: what goes wrong is a warning."""

    def __init__(self, spec: JobSpec, objects: ObjectStore, url: str, token_file: str | None) -> None:
        self._objects = objects
        self._address = JobAddress(
            job_id=spec.job_id,
            name=spec.name,
            url=url,
            token_file=token_file,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=wall_clock_ms(),
            storage=storage_root(spec),
        )
        self._local = jobs_directory() / f"{spec.job_id}@{os.getpid()}.json"
        self._is_written = False

    def write(self) -> None:
        """Write them, in place of those that an earlier driver has left."""
        self._is_written = True
        self._carry_out("written", (self._write_local, self._write_stored))

    def remove(self) -> None:
        """Remove them, but for those that another driver has written since."""
        if self._is_written:
            self._is_written = False
            self._carry_out("removed", (self._remove_local, self._remove_stored))

    def _carry_out(self, what: str, steps: Iterable[Callable[[], None]]) -> None:
        """Storage may hang, and neither the start nor the end of a job may hang with it."""

        def run() -> None:
            for step in steps:
                try:
                    step()
                except Exception as error:
                    self._warn(what, str(error))

        thread = threading.Thread(target=run, name="snapline-address", daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        if thread.is_alive():
            self._warn(what, f"the storage does not answer within {PATIENCE_S:.0f} s")

    def _warn(self, what: str, problem: str) -> None:
        _log.warning(
            "job %s: its address could not be %s: %s. Commands find the job by its URL, %s",
            self._address.name,
            what,
            problem,
            self._address.url,
        )

    # In the user's home.

    def _write_local(self) -> None:
        directory = self._local.parent
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        directory.chmod(0o700)
        # Made readable by the owner only.
        descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".tmp-")
        try:
            with open(descriptor, "wb") as file:
                file.write(self._address.encode())
            os.replace(temporary, self._local)
        except BaseException:
            os.unlink(temporary)
            raise

    def _remove_local(self) -> None:
        self._local.unlink(missing_ok=True)

    # Beside the checkpoints.

    @property
    def _stored(self) -> str | None:
        root = self._address.storage
        return None if root is None else stored_address(root, self._address.job_id)

    def _write_stored(self) -> None:
        if self._stored is not None:
            self._objects.write(self._stored, self._address.encode())
            location = directory_location(self._stored)
            if location.scheme == "file":
                with suppress(FileNotFoundError):  # `objects` may be one that keeps nothing in files
                    os.chmod(location.rest, 0o600)

    def _remove_stored(self) -> None:
        if self._stored is None or self._objects.size_bytes(self._stored) is None:
            return
        if self._objects.read(self._stored) == self._address.encode():
            self._objects.delete([self._stored])
