"""What `FileObjects` needs of one kind of storage, and how it reads its failures.

`FileObjects` routes, repeats and reports; a backend only does, once. The kinds differ in how an object becomes visible
whole, and at most once for `create`:

- local: a temporary file beside it, synced, then linked (`create`) or renamed (`write`) to its name;
- S3: one conditional request, or one request; a large object in parts, which a last request of that kind joins;
- HDFS: a temporary file, then a rename. A `write` over an object that is there deletes that one first;
- memory: under a lock, in the memory of this process;
- other schemes of fsspec: no `create`, and an object is seen whole only if the scheme itself sees to that.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Protocol

from snapline.storage.object_paths import Location
from snapline.storage.object_store import Bytes

COPY_BYTES = 8 << 20
"""How much of an object is in memory at once when it is copied."""

MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""What reading raises if there is no object. A directory is none."""


class Outlook(Enum):
    """Whether an operation that failed may work when it is repeated."""

    PASSING = "PASSING"
    LASTING = "LASTING"
    UNKNOWN = "UNKNOWN"


_PASSING = frozenset(
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
_LASTING = frozenset(
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
    """The operation failed before it could take effect. The cause is the failure."""


class BulkDeleteError(OSError):
    """Some objects of one request could not be deleted. The cause is why the first could not."""

    def __init__(self, failed: int, message: str) -> None:
        super().__init__(message)
        self.failed = failed


class Backend(Protocol):
    """Objects under the backend's own names. Failures are whatever the library raises.

    Reading raises one of `MISSING` if there is no object. `create`, `write` and `upload` raise `NotDoneError` for a
    failure that cannot have taken effect.
    """

    @property
    def delete_batch(self) -> int:
        """How many objects one `delete` takes."""
        ...

    def name(self, location: Location) -> str: ...
    def outlook(self, error: Exception) -> Outlook: ...
    def create(self, name: str, data: Bytes, token: str) -> bool:
        """`token` is unique to the operation, and the same in all of its tries."""
        ...

    def write(self, name: str, data: Bytes) -> None: ...
    def upload(self, source: Path, name: str) -> None: ...
    def download(self, name: str, target: Path) -> None: ...
    def read(self, name: str, offset: int, length: int | None) -> bytes: ...
    def size_bytes(self, name: str) -> int: ...
    def list(self, name: str) -> Iterable[tuple[str, int]]:
        """What follows the directory in the name of each object below it, and its size."""
        ...

    def delete(self, names: Sequence[str]) -> None: ...
    def delete_tree(self, name: str) -> None: ...
    def sweep(self, name: str, is_waste: Callable[[str], bool]) -> None:
        """`is_waste` is given what follows the directory in the name; that of a directory ends in a slash."""
        ...


def outlook_of(error: Exception) -> Outlook:
    """The outlook of a failure that any library may raise: by its class, its HTTP status or its error number."""
    if isinstance(error, TimeoutError | ConnectionError | InterruptedError | BlockingIOError):
        return Outlook.PASSING
    status = http_status(error)
    if status is not None:
        passing = status in (408, 409, 429) or (status >= 500 and status != 501)
        return Outlook.PASSING if passing else Outlook.LASTING
    if isinstance(error, OSError):
        if isinstance(error, (*MISSING, FileExistsError, PermissionError)) or error.errno in _LASTING:
            return Outlook.LASTING
        if error.errno in _PASSING:
            return Outlook.PASSING
    return Outlook.UNKNOWN


def http_status(error: BaseException | None) -> int | None:
    """The status of the HTTP response behind an error of botocore, or behind what s3fs made of it."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return status if isinstance(status, int) else None
        error = error.__cause__
    return None


@contextmanager
def not_done() -> Iterator[None]:
    """For the part of an operation that comes before its effect."""
    try:
        yield
    except Exception as error:
        raise NotDoneError from error
