"""The contract of one kind of storage behind `FileObjects`, and the classification of its failures.

`FileObjects` routes, retries and reports; a backend does each operation once. Backends differ in how an object becomes
visible whole, and at most once for `create`:

- local: a temporary file beside it, synced, then linked (`create`) or renamed (`write`) to its name;
- S3: one conditional request, or one request; a large object in parts, joined by a last request of that kind;
- HDFS: a temporary file, then a rename. A `write` over an existing object deletes it first;
- memory: under a lock, in the memory of this process;
- other fsspec schemes: no `create`, and objects appear whole only if the scheme guarantees it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Protocol

from snapline.storage.objects.object_paths import Location
from snapline.storage.objects.object_store import Bytes

COPY_BYTES = 8 << 20
"""Buffer size for copying objects."""

MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""What a read raises if there is no object. A directory is not an object."""


class Outlook(Enum):
    """Whether a failed operation may succeed when retried."""

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"
    UNKNOWN = "UNKNOWN"


_TRANSIENT = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOTEMPTY,
        errno.EREMOTEIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
_PERMANENT = frozenset(
    {
        errno.EDQUOT,
        errno.EFBIG,
        errno.EINVAL,
        errno.ELOOP,
        errno.EMLINK,
        errno.EMSGSIZE,
        errno.ENAMETOOLONG,
        errno.ENOSPC,
        errno.ENOSYS,
        errno.ENOTSUP,
        errno.EROFS,
        errno.EXDEV,
    }
)


class NotDoneError(Exception):
    """The operation failed before it could take effect. `__cause__` is the failure."""


class BulkDeleteError(OSError):
    """Some objects of one request could not be deleted. `__cause__` is the first failure."""

    def __init__(self, failed: int, message: str) -> None:
        super().__init__(message)
        self.failed = failed


class Backend(Protocol):
    """Objects under the backend's own names. Methods raise whatever the library raises.

    Reads raise one of `MISSING` if there is no object. `create`, `write` and `upload` raise `NotDoneError` if they
    failed before they could take effect.
    """

    @property
    def delete_batch(self) -> int:
        """Maximum number of objects per `delete`."""
        ...

    def name(self, location: Location) -> str: ...
    def outlook(self, error: Exception) -> Outlook: ...
    def create(self, name: str, data: Bytes, token: str) -> bool:
        """`token` is unique to the operation, and the same for all its tries."""
        ...

    def write(self, name: str, data: Bytes) -> None: ...
    def upload(self, source: Path, name: str) -> None: ...
    def download(self, name: str, target: Path) -> None: ...
    def read(self, name: str, offset: int, length: int | None) -> bytes: ...
    def size_bytes(self, name: str) -> int: ...
    def list(self, name: str) -> Iterable[tuple[str, int]]:
        """Yields the path of each object relative to the directory, and its size."""
        ...

    def delete(self, names: Sequence[str]) -> None: ...
    def delete_tree(self, name: str) -> None: ...
    def sweep(self, name: str, is_waste: Callable[[str], bool]) -> None:
        """`is_waste` gets paths relative to the directory; those of directories end in a slash."""
        ...


def outlook_of(error: Exception) -> Outlook:
    """Classify a failure by its class, HTTP status or error number."""
    if isinstance(error, TimeoutError | ConnectionError | InterruptedError | BlockingIOError):
        return Outlook.TRANSIENT
    status = http_status(error)
    if status is not None:
        is_transient = status in (408, 409, 429) or (status >= 500 and status != 501)
        return Outlook.TRANSIENT if is_transient else Outlook.PERMANENT
    if isinstance(error, OSError):
        if isinstance(error, (*MISSING, FileExistsError, PermissionError)) or error.errno in _PERMANENT:
            return Outlook.PERMANENT
        if error.errno in _TRANSIENT:
            return Outlook.TRANSIENT
    return Outlook.UNKNOWN


def is_refused(error: Exception) -> bool:
    """Whether other credentials may help. A request without content learns no more than 400 of an expired token."""
    return isinstance(error, PermissionError) or http_status(error) in (400, 401, 403)


def http_status(error: BaseException | None) -> int | None:
    """Returns the HTTP status behind a botocore error, also as wrapped by s3fs, or None."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return status if isinstance(status, int) else None
        error = error.__cause__
    return None


@contextmanager
def not_done() -> Iterator[None]:
    """Marks failures in the part of an operation before it can take effect."""
    try:
        yield
    except Exception as error:
        raise NotDoneError from error
