"""Objects behind fsspec: S3, HDFS, `memory://`, and other schemes without `create`."""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from snapline.errors import ConfigurationError
from snapline.storage.objects.object_backend import (
    COPY_BYTES,
    MISSING,
    BulkDeleteError,
    NotDoneError,
    Outlook,
    http_status,
    not_done,
    outlook_of,
)
from snapline.storage.objects.object_paths import SCHEMES, TEMPORARY, Location, temporary_name, wrong_path
from snapline.storage.objects.object_store import Bytes

PART_BYTES = 8 << 20
"""S3: objects of at least twice this size are uploaded in parts of this size."""

MAX_PARTS = 10_000
MAX_BULK_DELETE = 1_000

CREATED_BY = "snapline-create"
"""S3: metadata key by which a `create` recognizes its own object."""

_LOGS_OF_REQUESTS = ("botocore.auth", "botocore.endpoint")
"""Loggers that show the headers of requests, session tokens included, at DEBUG."""


class FsspecBackend:
    """Any fsspec scheme, without `create`. Names are those of the fsspec file system."""

    delete_batch = 1

    def __init__(self, location: Location, options: Mapping[str, Any], parallelism: int) -> None:
        self._scheme = location.scheme
        self._location = location
        self._parallelism = parallelism
        self._options = options
        self._generation = 0
        self._fs = self._opened(options)

    @property
    def scheme(self) -> str:
        return self._scheme

    @property
    def generation(self) -> int:
        """How often it has been given other options."""
        return self._generation

    def reconnect(self, options: Mapping[str, Any]) -> bool:
        """Use these options from now on; returns False if they are the same. Calls under way finish with the old."""
        if options == self._options:
            return False
        self._fs = self._opened(options)
        self._options = options
        self._generation += 1
        return True

    def _opened(self, options: Mapping[str, Any]) -> Any:
        # Cached instances and listings would hide what other processes write.
        private = {"skip_instance_cache": True, "use_listings_cache": False}
        return self._connect(self._location, {**options, **private})

    def _connect(self, location: Location, options: dict[str, Any]) -> Any:
        import fsspec

        try:
            filesystem = fsspec.get_filesystem_class(location.scheme)
        except ImportError as error:
            extra = f"pip install 'snapline[{location.scheme}]'" if location.scheme == "s3" else str(error)
            problem = f"needs a package that is not installed: {extra}"
            raise wrong_path(location.path, problem) from error
        except ValueError as error:
            raise wrong_path(location.path, f"has the unknown scheme {location.scheme!r}; use {SCHEMES}") from error
        root = f"{location.scheme}://{location.authority}/"
        return filesystem(**{**filesystem._get_kwargs_from_urls(root), **options})

    def name(self, location: Location) -> str:
        return str(self._fs._strip_protocol(location.path))

    def outlook(self, error: Exception) -> Outlook:
        return outlook_of(error)

    def create(self, name: str, data: Bytes, token: str) -> bool:  # noqa: ARG002
        raise ConfigurationError(
            f"{self._scheme}:// cannot create an object only if none exists, which checkpoints need; "
            "use a local path, s3://, hdfs:// or memory://"
        )

    def write(self, name: str, data: Bytes) -> None:
        self._fs.pipe_file(name, bytes(data))

    def upload(self, source: Path, name: str) -> None:
        self._fs.put_file(str(source), name)

    def download(self, name: str, target: Path) -> None:
        self._fs.get_file(name, str(target))

    def read(self, name: str, offset: int, length: int | None) -> bytes:
        return bytes(self._fs.cat_file(name, start=offset, end=None if length is None else offset + length))

    def size_bytes(self, name: str) -> int:
        info = self._fs.info(name)
        if info["type"] != "file":
            raise FileNotFoundError(name)
        return int(info["size"])

    def list(self, name: str) -> Iterator[tuple[str, int]]:
        start = name.rstrip("/") + "/"
        for found, info in self._fs.find(name, detail=True).items():
            # A bucket may hold empty objects that represent directories.
            if found.startswith(start) and not found.endswith("/"):
                yield found.removeprefix(start), int(info["size"])

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                self._fs.rm_file(name)

    def delete_tree(self, name: str) -> None:
        # Not by fsspec's recursive delete, which treats "*" and "[" in a name as a pattern.
        self.delete([f"{name}/{below}" for below, _ in self.list(name)])

    def sweep(self, name: str, is_waste: Callable[[str], bool]) -> None:
        """Nothing to do: objects are written in one step, and there are no directories."""


class FsspecMemoryBackend(FsspecBackend):
    """`memory://` of fsspec, shared by the whole process."""

    _lock: ClassVar = threading.Lock()

    def name(self, location: Location) -> str:
        return "/" + "/".join(location.parts)

    def create(self, name: str, data: Bytes, token: str) -> bool:  # noqa: ARG002
        with self._lock:
            if self._fs.isfile(name):
                return False
            self._fs.pipe_file(name, bytes(data))
            return True

    def upload(self, source: Path, name: str) -> None:
        self._fs.pipe_file(name, source.read_bytes())

    def download(self, name: str, target: Path) -> None:
        target.write_bytes(self._fs.cat_file(name))


class S3Backend(FsspecBackend):
    """S3 and compatible stores. Names are `bucket/key`."""

    delete_batch = MAX_BULK_DELETE

    def _connect(self, location: Location, options: dict[str, Any]) -> Any:
        for name in _LOGS_OF_REQUESTS:
            logging.getLogger(name).addFilter(_has_no_token)  # a second time has no effect
        # The clients below would retry on their own, beyond our limit.
        configuration = {"retries": {"max_attempts": 0}, **options.get("config_kwargs", {})}
        defaults = {"max_concurrency": self._parallelism}
        filesystem = super()._connect(location, {**defaults, **options, "config_kwargs": configuration})
        filesystem.retries = 1
        return filesystem

    def name(self, location: Location) -> str:
        return "/".join(location.parts)

    def outlook(self, error: Exception) -> Outlook:
        import aiohttp
        import botocore.exceptions as boto  # type: ignore[import-untyped]
        from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

        if isinstance(error, BulkDeleteError) and isinstance(error.__cause__, Exception):
            return outlook_of(error.__cause__)
        if isinstance(error, boto.HTTPClientError | boto.ConnectionError | aiohttp.ClientError | ResponseParserError):
            return Outlook.TRANSIENT
        # botocore's other errors, such as missing credentials, are raised before anything is sent.
        return Outlook.PERMANENT if isinstance(error, boto.BotoCoreError) else outlook_of(error)

    def create(self, name: str, data: Bytes, token: str) -> bool:
        try:
            self._fs.pipe_file(name, bytes(data), chunksize=PART_BYTES, mode="create", Metadata={CREATED_BY: token})
        except Exception as error:
            if http_status(error) == 412:
                # The HTTP client resends a request whose connection was closed, so the object may be our own.
                return self._creator(name) == token
            if http_status(error) in (409, 429, 503) or _never_connected(error):
                raise NotDoneError from error
            raise
        return True

    def write(self, name: str, data: Bytes) -> None:
        self._fs.pipe_file(name, bytes(data), chunksize=PART_BYTES)

    def upload(self, source: Path, name: str) -> None:
        part_bytes = max(PART_BYTES, -(-source.stat().st_size // MAX_PARTS))
        self._fs.put_file(str(source), name, chunksize=part_bytes)

    def download(self, name: str, target: Path) -> None:
        # Concurrent requests could mix two objects if this one is replaced meanwhile.
        self._fs.get_file(name, str(target), max_concurrency=1)

    def read(self, name: str, offset: int, length: int | None) -> bytes:
        if offset == 0 and length is None:
            return bytes(self._fs.cat_file(name, max_concurrency=1))
        try:
            return super().read(name, offset, length)
        except OSError as error:
            if http_status(error) == 416:
                return b""
            raise

    def delete(self, names: Sequence[str]) -> None:
        from botocore.exceptions import ClientError
        from s3fs.errors import translate_boto_error

        keys_by_bucket: dict[str, list[dict[str, str]]] = {}
        for name in names:
            bucket, _, key = name.partition("/")
            keys_by_bucket.setdefault(bucket, []).append({"Key": key})
        errors = []
        for bucket, keys in keys_by_bucket.items():
            answer = self._fs.call_s3("delete_objects", Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
            errors += answer.get("Errors", [])
        if errors:
            cause = translate_boto_error(ClientError({"Error": errors[0]}, "DeleteObjects"))
            raise BulkDeleteError(len(errors), f"{errors[0].get('Key')}: {cause}") from cause

    def delete_tree(self, name: str) -> None:
        start = name + "/"
        found = [entry for entry in self._fs.find(name) if entry.startswith(start)]
        for index in range(0, len(found), MAX_BULK_DELETE):
            self.delete(found[index : index + MAX_BULK_DELETE])

    def _creator(self, name: str) -> str | None:
        bucket, _, key = name.partition("/")
        try:
            head = self._fs.call_s3("head_object", Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        found = head["Metadata"].get(CREATED_BY)
        return None if found is None else str(found)


class HdfsBackend(FsspecBackend):
    """HDFS through pyarrow and libhdfs. Names are absolute paths.

    Uses pyarrow directly: fsspec on top of it hides errors, such as a directory it could not list.
    """

    def _connect(self, location: Location, options: dict[str, Any]) -> Any:
        try:
            return super()._connect(location, options).fs
        except OSError as error:
            if "libhdfs" in str(error) or "libjvm" in str(error):
                problem = "needs libhdfs and a Java runtime; install a Hadoop client and set HADOOP_HOME and JAVA_HOME"
                raise wrong_path(location.path, problem) from error
            raise

    def name(self, location: Location) -> str:
        return "/" + "/".join(location.parts[1:] if location.authority else location.parts)

    def create(self, name: str, data: Bytes, token: str) -> bool:
        parent, _, last = name.rpartition("/")
        stage = f"{parent}/{temporary_name(name, token)}"
        staged = f"{stage}/{last}"
        try:
            with not_done():
                self._fs.create_dir(stage, recursive=True)
                with self._fs.open_output_stream(staged, compression=None) as file:
                    file.write(data)
            try:
                # A move onto a file deletes that file. A move into a directory is a single HDFS rename, which fails if
                # the name exists there; and it finds nothing to move if the directory, with the stage, is gone.
                self._fs.move(staged, parent or "/")
            except OSError:
                if self._exists(staged):
                    if self._exists(name):
                        return False
                    raise
            return True
        finally:
            with suppress(Exception):
                self._fs.delete_dir(stage)

    def write(self, name: str, data: Bytes) -> None:
        with self._replacing(name) as file:
            file.write(data)

    def upload(self, source: Path, name: str) -> None:
        with open(source, "rb") as original, self._replacing(name) as file:
            shutil.copyfileobj(original, file, COPY_BYTES)

    def download(self, name: str, target: Path) -> None:
        with self._fs.open_input_file(name) as file, open(target, "wb") as copy:
            shutil.copyfileobj(file, copy, COPY_BYTES)

    def read(self, name: str, offset: int, length: int | None) -> bytes:
        with self._fs.open_input_file(name) as file:
            # Limited to the file: `read` allocates all it is asked for.
            end = file.size()
            file.seek(min(offset, end))
            return bytes(file.read(None if length is None else min(length, end)))

    def size_bytes(self, name: str) -> int:
        with self._fs.open_input_file(name) as file:
            return int(file.size())

    def list(self, name: str) -> Iterator[tuple[str, int]]:
        from pyarrow.fs import FileSelector, FileType

        start = name.rstrip("/") + "/"
        try:
            found = self._fs.get_file_info(FileSelector(name, recursive=True))
        except OSError:
            if self._exists(name):
                return
            raise
        for info in found:
            if info.type is FileType.File:
                yield info.path.removeprefix(start), info.size

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                self._fs.delete_file(name)
            except OSError:
                if self._exists(name):
                    raise

    def delete_tree(self, name: str) -> None:
        try:
            self._fs.delete_dir(name)
        except FileNotFoundError:
            return
        except OSError:
            if not self._exists(name):
                raise

    def sweep(self, name: str, is_waste: Callable[[str], bool]) -> None:
        for below, is_directory in self._below(name):
            parent, _, last = below.rpartition("/")
            # Files in a stage are deleted with it.
            if last.startswith(TEMPORARY) and TEMPORARY not in parent and is_waste(below):
                (self._fs.delete_dir if is_directory else self._fs.delete_file)(f"{name}/{below}")
        found = self._below(name)
        files = [below for below, is_directory in found if not is_directory]
        for below, is_directory in sorted(found, reverse=True):
            start = f"{below}/"
            if is_directory and is_waste(start) and not any(file.startswith(start) for file in files):
                self._fs.delete_dir(f"{name}/{below}")

    def _below(self, name: str) -> Sequence[tuple[str, bool]]:
        """Returns the relative path of everything below a directory, and whether it is a directory."""
        from pyarrow.fs import FileSelector, FileType

        found = self._fs.get_file_info(FileSelector(name, allow_not_found=True, recursive=True))
        return [(info.path.removeprefix(f"{name}/"), info.type is FileType.Directory) for info in found]

    def _exists(self, name: str) -> bool:
        try:
            self.size_bytes(name)
        except MISSING:
            return False
        return True

    @contextmanager
    def _replacing(self, name: str) -> Iterator[BinaryIO]:
        parent = name.rpartition("/")[0]
        temporary = f"{parent}/{temporary_name(name, uuid.uuid4().hex)}"
        try:
            with not_done():
                self._fs.create_dir(parent or "/", recursive=True)
                with self._fs.open_output_stream(temporary, compression=None) as file:
                    yield file
            self._fs.move(temporary, name)
        except BaseException:
            with suppress(Exception):
                self._fs.delete_file(temporary)
            raise


REMOTE_BACKENDS: Mapping[str, type[FsspecBackend]] = {
    "s3": S3Backend,
    "hdfs": HdfsBackend,
    "memory": FsspecMemoryBackend,
}


def _has_no_token(record: logging.LogRecord) -> bool:
    return "security-token" not in record.getMessage().lower()


def _never_connected(error: Exception) -> bool:
    from aiohttp import ClientConnectorError
    from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

    if isinstance(error, EndpointConnectionError):
        return isinstance(error.kwargs.get("error"), ClientConnectorError)
    return isinstance(error, ConnectTimeoutError)
