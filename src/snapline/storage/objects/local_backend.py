"""Objects as local files: whole by rename, exclusive by link, synced before they are visible."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from snapline.errors import StorageError
from snapline.storage.objects.object_backend import COPY_BYTES, MISSING, Outlook, not_done, outlook_of
from snapline.storage.objects.object_paths import TEMPORARY, Location, temporary_name
from snapline.storage.objects.object_store import Bytes

_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


class LocalBackend:
    """Local and mounted files. Names are absolute paths.

    `no_links_below` are directories in which no path may lead through a symbolic link; `mode` is that of directories
    it makes, and without x of files.
    """

    delete_batch = 1

    def __init__(self, no_links_below: Iterable[str] = (), mode: int | None = None) -> None:
        self._roots = [os.path.abspath(directory) for directory in no_links_below]
        self._mode = mode

    def name(self, location: Location) -> str:
        name = os.path.abspath(location.rest)
        for root in self._roots:
            if name.startswith(f"{root}/"):
                _refuse_links(root, name)
        return name

    def outlook(self, error: Exception) -> Outlook:
        return outlook_of(error)

    def create(self, name: str, data: Bytes, token: str) -> bool:
        with self._staged(name, token) as temporary:
            with not_done(), _synced(temporary, self._mode) as file:
                file.write(data)
            try:
                os.link(temporary, name)
            except FileExistsError:
                if os.path.isdir(name):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name) from None
                # NFS reports a successful link as failed if the reply was lost; the link count shows which it was.
                if os.stat(temporary).st_nlink < 2:
                    return False
        sync_directory(os.path.dirname(name))
        return True

    def write(self, name: str, data: Bytes) -> None:
        with self._replacing(name) as file:
            file.write(data)

    def upload(self, source: Path, name: str) -> None:
        with open(source, "rb") as original, self._replacing(name) as file:
            shutil.copyfileobj(original, file, COPY_BYTES)

    def download(self, name: str, target: Path) -> None:
        shutil.copyfile(name, target)

    def read(self, name: str, offset: int, length: int | None) -> bytes:
        with open(name, "rb") as file:
            # Limited to the file: `read` allocates all it is asked for, and not every offset fits `seek`.
            end = os.fstat(file.fileno()).st_size
            file.seek(min(offset, end))
            return file.read(-1 if length is None else min(length, end))

    def size_bytes(self, name: str) -> int:
        if os.path.isdir(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        return os.stat(name).st_size

    def list(self, name: str) -> Iterator[tuple[str, int]]:
        for directory, _, files in os.walk(name, onerror=_raise_unless_missing):
            for file in files:
                path = os.path.join(directory, file)
                with suppress(FileNotFoundError):
                    yield os.path.relpath(path, name), os.stat(path).st_size

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(*MISSING):
                os.unlink(name)

    def delete_tree(self, name: str) -> None:
        if os.path.islink(name):  # `walk` would follow it
            os.unlink(name)
            return
        for directory, directories, files in os.walk(name, topdown=False, onerror=_raise_unless_missing):
            for file in files:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(directory, file))
            for below in directories:
                path = os.path.join(directory, below)
                with suppress(FileNotFoundError):
                    (os.unlink if os.path.islink(path) else os.rmdir)(path)
        with suppress(FileNotFoundError, NotADirectoryError):
            os.rmdir(name)

    def sweep(self, name: str, is_waste: Callable[[str], bool]) -> None:
        for directory, _, files in os.walk(name, topdown=False, onerror=_raise_unless_missing):
            for file in files:
                path = os.path.join(directory, file)
                if file.startswith(TEMPORARY) and is_waste(os.path.relpath(path, name)):
                    with suppress(FileNotFoundError):
                        os.unlink(path)
            below = "" if directory == name else os.path.relpath(directory, name) + "/"
            if is_waste(below):
                try:
                    os.rmdir(directory)
                except OSError as error:
                    if not isinstance(error, MISSING) and error.errno not in _NOT_EMPTY:
                        raise

    @contextmanager
    def _replacing(self, name: str) -> Iterator[BinaryIO]:
        with self._staged(name, uuid.uuid4().hex) as temporary:
            with not_done(), _synced(temporary, self._mode) as file:
                yield file
            os.replace(temporary, name)
        sync_directory(os.path.dirname(name))

    @contextmanager
    def _staged(self, name: str, token: str) -> Iterator[str]:
        """Yields the path of a temporary file in the directory of `name`, always removed at the end."""
        directory = os.path.dirname(name)
        with not_done():
            _make_directory(directory, self._mode)
        temporary = os.path.join(directory, temporary_name(name, token))
        try:
            yield temporary
        finally:
            with suppress(OSError):
                os.unlink(temporary)


@contextmanager
def _synced(path: str, mode: int | None) -> Iterator[BinaryIO]:
    """Yields a file that is synced when the block ends."""
    with open(path, "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode & 0o666)
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Make the names in a directory durable, where the file system can."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some mounted file systems cannot sync a directory, and do not need to.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _make_directory(path: str, mode: int | None) -> None:
    """Create a directory and its parents, and sync each."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_directory(parent, mode)
    with suppress(FileExistsError):
        os.mkdir(path)
        if mode is not None:
            os.chmod(path, mode)
    sync_directory(parent)


def _refuse_links(root: str, name: str) -> None:
    path = root
    for part in name[len(root) + 1 :].split("/"):
        path = f"{path}/{part}"
        if os.path.islink(path):
            raise StorageError(
                f"{path} is a symbolic link, which could lead anywhere, so nothing is read, written or deleted through "
                "it; put the directory or file itself in its place"
            )


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, MISSING):
        raise error
