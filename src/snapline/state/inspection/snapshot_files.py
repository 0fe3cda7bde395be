"""The state files of a snapshot and the files of backends; errors name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from snapline.errors import ConfigurationError, DamagedError, ObjectNotFoundError, SnaplineError
from snapline.protocol.snapshot import KeyedPart, OperatorState, StoredObject
from snapline.state import state_files
from snapline.state.rocksdb.rocksdb_files import NATIVE, Listing, decode_listing
from snapline.state.state_files import StateFile
from snapline.storage.snapshot_reader import SnapshotReader


def state_objects(operator: OperatorState) -> Iterator[tuple[int, StoredObject]]:
    """The state files of an operator, each with the subtask that wrote it."""
    for index, state in operator.subtasks.items():
        for part in state.keyed:
            if part.native is None:
                yield from ((index, item) for item in part.objects)
        yield from ((index, part.object) for part in state.operator)


def native_parts(operator: OperatorState) -> Iterator[tuple[int, KeyedPart]]:
    """The parts in a backend's own files, each with the subtask that wrote it."""
    for index, state in operator.subtasks.items():
        yield from ((index, part) for part in state.keyed if part.native is not None)


def describe_file(item: StoredObject, source: SnapshotReader) -> StateFile:
    with named_damage(item), source.open(item) as file:
        return state_files.describe(file)


def check_file(item: StoredObject, source: SnapshotReader) -> None:
    """Raise `ObjectNotFoundError` if the file of an object does not exist."""
    with named_damage(item):
        source.check(item)


def read_listing(part: KeyedPart, source: SnapshotReader) -> Listing:
    """Read what a backend's own files hold. Only RocksDB has such files."""
    if not part.objects:
        raise DamagedError(
            f"the metadata names a {part.native} database for key groups {part.key_groups.start} to "
            f"{part.key_groups.end}, but no files"
        )
    item = part.objects[0]
    if part.native != NATIVE:
        raise ConfigurationError(
            f"{item.path} lists files of {part.native}, which cannot be shown; take a canonical savepoint of the job "
            "and look into that"
        )
    with named_damage(item), library_damage(item):
        return decode_listing(source.read(item), item.path)


@contextmanager
def named_damage(item: StoredObject) -> Iterator[None]:
    """Let errors say which file of the snapshot is damaged or missing."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise ObjectNotFoundError(
            f"{error.path}, a file of the snapshot, is not there; it was deleted, or the directory was moved without "
            "what it refers to",
            path=error.path,
        ) from error
    except DamagedError as error:
        if item.path in str(error):
            raise
        raise DamagedError(f"{item.path}: {error}") from error


@contextmanager
def library_damage(item: StoredObject) -> Iterator[None]:
    """Turn whatever RocksDB and Arrow raise for damaged files of a backend into `DamagedError`."""
    try:
        yield
    except (GeneratorExit, SnaplineError):
        raise
    except Exception as error:
        raise DamagedError(
            f"{item.path} is damaged, or the files it lists are: {type(error).__name__}: {error}"
        ) from error
