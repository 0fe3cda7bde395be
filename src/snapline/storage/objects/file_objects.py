"""Objects in local files and in every store fsspec reaches: routing by scheme, retries, and errors that say why."""

from __future__ import annotations

import errno
import io
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from snapline.config import StorageOptions, StorageOptionsLike
from snapline.config.secret import without_secrets
from snapline.config.storage_options import credential_values, references, resolved
from snapline.errors import ConfigurationError, ObjectNotFoundError, SnaplineError, StorageError
from snapline.storage.objects.daemon_pool import DaemonPool
from snapline.storage.objects.local_backend import LocalBackend
from snapline.storage.objects.object_backend import (
    MISSING,
    Backend,
    BulkDeleteError,
    NotDoneError,
    Outlook,
    is_refused,
)
from snapline.storage.objects.object_paths import (
    TEMPORARY,
    Location,
    canonical_scheme,
    directory_location,
    object_location,
    whole_file,
    wrong_path,
)
from snapline.storage.objects.object_store import Bytes, ObjectInfo
from snapline.storage.objects.remote_backends import REMOTE_BACKENDS, FsspecBackend

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_RETRIES = 100
MAX_BACKOFF_MS = 30_000
MAX_PARALLELISM = 256
READ_BUFFER_BYTES = 1 << 20

_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError")
_NO_CONNECTION = ("EndpointConnectionError", "ConnectTimeoutError")
"""Classes of botocore."""

REMEMBERED_CREDENTIALS = 64
"""Latest values of credentials that are kept out of messages."""

T = TypeVar("T")


class FileObjects:
    """`ObjectStore` for local paths and for every fsspec scheme that can keep its promises; the path selects which.

    `options` says how to reach remote storage, for example `sl.S3(endpoint="http://...")`. Error messages never show
    credentials. Secrets among them are resolved when this process first connects, and again when the storage refuses
    them: if they have changed since, the operation is repeated with the new ones.

    An operation that fails for a transient reason is retried up to `retries` times, first after `backoff_ms`, then
    after twice as long each time, at most 30 seconds; `sleep` waits, in seconds. `parallelism` limits concurrent
    deletes, and concurrent parts of one upload. On a file system, no path below one of
    the directories `no_links_below` may lead through a symbolic link, and new directories get `directory_mode`, files
    the same without its x; None follows the umask.

    Clients of remote storage are created on first use, one set per process: after a fork the child creates its own.
    Leftovers of a killed process are never visible but take space: `.tmp-...` files, which `sweep` and `delete_tree`
    remove, and on S3 unfinished uploads of large objects, which a lifecycle rule of the bucket should abort.
    """

    def __init__(
        self,
        *,
        options: StorageOptionsLike | None = None,
        retries: int = 3,
        backoff_ms: int = 100,
        parallelism: int = 8,
        no_links_below: Iterable[str] = (),
        directory_mode: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        for setting, value, least, most in (
            ("retries", retries, 0, MAX_RETRIES),
            ("backoff_ms", backoff_ms, 0, MAX_BACKOFF_MS),
            ("parallelism", parallelism, 1, MAX_PARALLELISM),
        ):
            if not least <= value <= most:
                raise ConfigurationError(f"{setting} = {value!r}: out of range; use {least} to {most}")
        self._options: dict[str, dict[str, Any]] = {}
        for scheme, values in StorageOptions.of(options).schemes.items():
            self._options.setdefault(canonical_scheme(scheme), {}).update(values)
        self._credentials: deque[str] = deque(maxlen=REMEMBERED_CREDENTIALS)
        self._retries = retries
        self._backoff_ms = backoff_ms
        self._parallelism = parallelism
        self._sleep = sleep
        local = [location for path in no_links_below if (location := directory_location(path)).scheme == "file"]
        self._local = LocalBackend([location.rest for location in local], directory_mode)
        self._remotes: dict[tuple[int, str, str], FsspecBackend] = {}
        self._lock = threading.Lock()

    def create(self, path: str, data: Bytes) -> bool:
        backend, name = self._route(object_location(path))
        token = uuid.uuid4().hex

        def create() -> bool:
            return backend.create(name, _flat(data), token)

        return self._run(backend, "create", path, create, changes=True, repeat_in_doubt=False)

    def write(self, path: str, data: Bytes) -> None:
        backend, name = self._route(object_location(path))
        self._run(backend, "write", path, lambda: backend.write(name, _flat(data)), changes=True)

    def upload(self, source: Path, path: str) -> None:
        backend, name = self._route(object_location(path))
        if not source.is_file():
            raise StorageError(f"cannot upload {str(source)!r} to {path!r}: no such file; check the source")
        self._run(backend, "upload to", path, lambda: backend.upload(source, name), changes=True)

    def download(self, path: str, target: Path) -> None:
        backend, name = self._route(object_location(path))
        try:
            with whole_file(target) as temporary:
                self._run(backend, "download", path, lambda: backend.download(name, temporary), reads=True)
        except OSError as error:
            raise StorageError(
                f"cannot write {str(target)!r}, the copy of {path!r}: {error}; {_advice(error, Outlook.PERMANENT)}"
            ) from error

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        backend, name = self._route(object_location(path))
        if offset < 0 or (length is not None and length < 0):
            raise ConfigurationError(f"cannot read {length} bytes from {offset} of {path!r}; use 0 or more for both")
        if length == 0:
            self._run(backend, "read", path, lambda: backend.size_bytes(name), reads=True)
            return b""
        return self._run(backend, "read", path, lambda: backend.read(name, offset, length), reads=True)

    def open(self, path: str) -> BinaryIO:
        backend, name = self._route(object_location(path))
        if isinstance(backend, LocalBackend):
            return self._run(backend, "open", path, lambda: open(name, "rb"), reads=True)
        size_bytes = self._run(backend, "open", path, lambda: backend.size_bytes(name), reads=True)
        return io.BufferedReader(_Ranges(self, path, size_bytes), READ_BUFFER_BYTES)

    def size_bytes(self, path: str) -> int | None:
        backend, name = self._route(object_location(path))

        def size() -> int | None:
            try:
                return backend.size_bytes(name)
            except MISSING:
                return None

        return self._run(backend, "find", path, size)

    def list(self, directory: str) -> list[ObjectInfo]:
        backend, name = self._route(directory_location(directory))
        start = directory.removesuffix("/") + "/"

        def found() -> list[ObjectInfo]:
            try:
                return [ObjectInfo(start + below, size) for below, size in backend.list(name) if _is_finished(below)]
            except MISSING:
                return []

        return sorted(self._run(backend, "list", directory, found), key=lambda info: info.path)

    def delete(self, paths: Iterable[str]) -> None:
        batches: list[tuple[Backend, list[tuple[str, str]]]] = []
        open_batches: dict[int, list[tuple[str, str]]] = {}
        distinct = dict.fromkeys(paths)
        for path in distinct:
            backend, name = self._route(object_location(path))
            batch = open_batches.get(id(backend))
            if batch is None or len(batch) == backend.delete_batch:
                batch = open_batches[id(backend)] = []
                batches.append((backend, batch))
            batch.append((path, name))
        if not batches:
            return
        with DaemonPool(min(self._parallelism, len(batches)), "snapline-delete") as pool:
            failures = [failure for failure in pool.map(lambda batch: self._delete_batch(*batch), batches) if failure]
        if failures:
            failed = sum(count for count, _ in failures)
            first = failures[0][1]
            raise StorageError(
                f"{failed} of {len(distinct)} objects could not be deleted; the first failure: {first}",
                possibly_inconsistent=any(error.possibly_inconsistent for _, error in failures),
            ) from first

    def delete_tree(self, directory: str) -> None:
        location = directory_location(directory)
        if location.is_root:
            raise wrong_path(directory, "is a whole file system; name a directory in it")
        backend, name = self._route(location)
        self._run(backend, "delete all of", directory, lambda: backend.delete_tree(name), changes=True)

    def sweep(self, directory: str, is_waste: Callable[[str], bool]) -> None:
        backend, name = self._route(directory_location(directory))
        start = directory.removesuffix("/") + "/"

        def sweep() -> None:
            backend.sweep(name, lambda below: is_waste(start + below))

        self._run(backend, "sweep", directory, sweep, changes=True)

    def _delete_batch(self, backend: Backend, batch: Sequence[tuple[str, str]]) -> tuple[int, StorageError] | None:
        """Delete one batch. Returns how many objects are left and why, or None."""
        try:
            self._run(backend, "delete", batch[0][0], lambda: backend.delete([name for _, name in batch]), changes=True)
        except StorageError as error:
            cause = error.__cause__
            return cause.failed if isinstance(cause, BulkDeleteError) else len(batch), error
        return None

    def _route(self, location: Location) -> tuple[Backend, str]:
        """Returns the backend for a location, and its name there."""
        backend: Backend = self._local if location.scheme == "file" else self._remote(location)
        return backend, backend.name(location)

    def _remote(self, location: Location) -> FsspecBackend:
        host = "" if location.scheme in ("s3", "memory") else location.authority
        key = (os.getpid(), location.scheme, host)
        with self._lock:
            if key not in self._remotes:
                kind, options = REMOTE_BACKENDS.get(location.scheme, FsspecBackend), self._resolved(location.scheme)
                self._remotes[key] = kind(location, options, self._parallelism)
            return self._remotes[key]

    def _resolved(self, scheme: str) -> Mapping[str, Any]:
        options: Mapping[str, Any] = resolved(self._options.get(scheme, {}))
        self._credentials.extend(credential_values(options))
        return options

    def _renewed(self, backend: Backend, generation: int) -> bool:
        """Whether the backend has other credentials now than when it had this generation."""
        if not isinstance(backend, FsspecBackend):
            return False
        with self._lock:
            return backend.generation != generation or backend.reconnect(self._resolved(backend.scheme))

    def _run(
        self,
        backend: Backend,
        operation: str,
        path: str,
        action: Callable[[], T],
        *,
        reads: bool = False,
        changes: bool = False,
        repeat_in_doubt: bool = True,
    ) -> T:
        """Run `action`, with retries after transient failures. The last failure becomes a `StorageError`."""
        in_doubt = False
        can_renew = True
        tries = 0
        while True:
            tries += 1
            generation = backend.generation if isinstance(backend, FsspecBackend) else 0
            try:
                return action()
            except SnaplineError:
                raise
            except Exception as error:
                cause = error.__cause__ if isinstance(error, NotDoneError) else error
                assert isinstance(cause, Exception)
                if reads and isinstance(cause, MISSING):
                    message = f"no object at {path!r} ({self._text(cause)}); check the path"
                    raise ObjectNotFoundError(message, path=path) from cause
                outlook, unresolved = backend.outlook(cause), ""
                if can_renew and is_refused(cause):
                    can_renew = False
                    try:
                        if self._renewed(backend, generation):
                            continue
                    except SnaplineError as problem:
                        unresolved = f"{problem}; "
                in_doubt |= changes and cause is error and outlook is not Outlook.PERMANENT
                if outlook is not Outlook.TRANSIENT or tries > self._retries or (in_doubt and not repeat_in_doubt):
                    doubt = "; it may have taken effect anyway" if in_doubt else ""
                    raise StorageError(
                        f"cannot {operation} {path!r}: {self._text(cause)} (tries: {tries}{doubt}); "
                        f"{unresolved}{_advice(cause, outlook)}{self._references(backend, cause)}",
                        possibly_inconsistent=in_doubt,
                    ) from self._without_credentials(cause)
            self._sleep(min(self._backoff_ms << (tries - 1), MAX_BACKOFF_MS) / 1000)

    def _text(self, error: Exception) -> str:
        """The error on one line, without the secrets among the options."""
        return without_secrets(f"{type(error).__name__}: {' '.join(str(error).split())}", tuple(self._credentials))

    def _without_credentials(self, error: Exception) -> Exception:
        """The error as it may stand in a traceback: another one if it, or one behind it, quotes a credential."""
        behind: BaseException | None = error
        while behind is not None:
            if without_secrets(str(behind), tuple(self._credentials)) != str(behind):
                return OSError(self._text(error))
            behind = behind.__cause__ or (None if behind.__suppress_context__ else behind.__context__)
        return error

    def _references(self, backend: Backend, error: Exception) -> str:
        """Which credentials were refused, if that is the problem."""
        if not isinstance(backend, FsspecBackend) or not is_refused(error):
            return ""
        named = ", ".join(references(self._options.get(backend.scheme, {})))
        return f"; it was given {named}" if named else ""


class _Ranges(io.RawIOBase):
    """A remote object as a file: each read is one ranged read of the store, with retries."""

    def __init__(self, objects: FileObjects, path: str, size_bytes: int) -> None:
        self._objects = objects
        self._path = path
        self._size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = start + offset
        return self._position

    def readall(self) -> bytes:
        # The inherited method would send one request for every few kilobytes.
        return self._read(self._size_bytes)

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def _read(self, most: int) -> bytes:
        length = min(most, max(0, self._size_bytes - self._position))
        data = self._objects.read(self._path, self._position, length) if length else b""
        self._position += len(data)
        return data


def _flat(data: Bytes) -> Bytes:
    """The same bytes, one per item."""
    return data.cast("B") if isinstance(data, memoryview) else data


def _is_finished(below: str) -> bool:
    return not any(part.startswith(TEMPORARY) for part in below.split("/"))


def _advice(error: Exception, outlook: Outlook) -> str:
    if isinstance(error, PermissionError):
        return "check the permissions and credentials"
    if type(error).__name__ in _NO_CREDENTIALS:
        return (
            "give credentials in `storage_options`, or the driver and the executors a role, ~/.aws or AWS_ACCESS_KEY_ID"
        )
    if isinstance(error, FileNotFoundError):
        return "create the bucket or directory first, and check the path"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free space there, or choose another location"
    if type(error).__name__ in _NO_CONNECTION:
        return "check the endpoint in `storage_options`, that it is reachable from here, then try again"
    if outlook is Outlook.TRANSIENT:
        return "check that the storage is reachable and not overloaded, then try again"
    return "see the cause, and check the path and the storage options"
