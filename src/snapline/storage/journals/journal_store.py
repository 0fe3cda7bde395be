"""Stores for a job's journal: the records of `protocol.journal`, each created once and all read together."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Protocol

import msgspec

from snapline.errors import DamagedError, ObjectNotFoundError, StorageError
from snapline.protocol.journal import Journal, Record, RecordKind
from snapline.storage.objects.daemon_pool import DaemonPool
from snapline.storage.objects.object_paths import TEMPORARY, is_below
from snapline.storage.objects.object_store import ObjectStore
from snapline.types import JobStatus

FORMAT_VERSION = 1
"""Format of a record; later versions are refused."""

MAX_READINGS = 20
"""Maximum readings of a journal that changes meanwhile, before an error."""

MAX_RECORD_BYTES = 1 << 20
"""Of a larger record only this much is read, and found to be damaged."""

PARALLEL_READS = 8
"""Concurrent reads where each record takes a request."""


class JournalStore(Protocol):
    """The journal of one job. Thread-safe; every method raises `StorageError` on failure."""

    @property
    def outlives_driver(self) -> bool:
        """Whether the journal survives this driver, for another one to read."""
        ...

    def read(self) -> Journal:
        """Returns all records as of one moment; an empty journal if there are none.

        An unreadable record is never skipped: it raises `DamagedError`.
        """
        ...

    def create(self, record: Record) -> bool:
        """Create a record under its name, atomically across drivers. Returns False if one exists.

        Not retried once the outcome is unclear (`possibly_inconsistent`): read to find out.
        """
        ...

    def delete(self, records: Iterable[Record]) -> None:
        """Delete records one by one in the given order, up to the first failure. Missing ones are fine.

        The order matters: what is left after a failure must be a valid journal.
        """
        ...

    def prepare(self) -> None:
        """Make sure that records can be created; called before a job starts.

        Raises `StorageError` if not.
        """
        return

    def sweep(self) -> None:
        """Delete leftovers of drivers killed while creating a record, if there can be any. Call it after taking over.

        A live driver that is creating a record at that moment fails and has to retry.
        """
        return

    def close(self) -> None:
        """Close connections, if there are any; the records stay. Idempotent; call nothing else afterwards."""
        return


# Records as bytes.


class _Version(msgspec.Struct):
    version: int


class _Stored(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    kind: RecordKind
    attempt: int
    token: str
    sequence: int = 0
    checkpoint_id: int | None = None
    location: str | None = None
    status: JobStatus | None = None
    lineage: str = ""


_SNAPSHOTS = frozenset({RecordKind.CHECKPOINT, RecordKind.STOP, RecordKind.SAVEPOINT})
_BESIDE = "../"
_NAME = re.compile(r"(claims|ids)/\d{19}|rows/\d{19}/\d{19}")


def is_record_name(name: str) -> bool:
    """Whether this is the name of a record; a journal ignores other files beside them."""
    return _NAME.fullmatch(name) is not None


def encode_record(record: Record) -> bytes:
    return msgspec.json.encode(_Stored(FORMAT_VERSION, **asdict(record)))


def decode_record(data: bytes, name: str, journal: str) -> Record:
    """Returns the record stored as `name` in `journal`. Raises `DamagedError` if it is not that record."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != FORMAT_VERSION:
            raise _damaged(name, journal, f"its format is {version}, this Snapline reads {FORMAT_VERSION}")
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(name, journal, str(error)) from error
    fields = msgspec.structs.asdict(stored)
    del fields["version"]
    record = Record(**fields)
    if not _is_complete(record):
        raise _damaged(name, journal, f"it lacks fields of {record.kind.value} records")
    if record.name != name:
        raise _damaged(name, journal, f"it holds the record {record.name}")
    return record


def _is_complete(record: Record) -> bool:
    if record.kind in _SNAPSHOTS:
        return record.checkpoint_id is not None and record.location is not None
    if record.kind is RecordKind.ID:
        return record.checkpoint_id is not None
    return (record.status is not None) is (record.kind is RecordKind.END)


def _damaged(name: str, journal: str, reason: str) -> DamagedError:
    return DamagedError(
        f"record {name} of the journal {journal} is unreadable: {reason}. Nothing was changed. Restore the record "
        "from a backup, or run the Snapline that wrote it; or submit the job under a new id, restored from its newest "
        "checkpoint or savepoint. Do not just delete the record: it may be what keeps a second driver out"
    )


def read_at_one_moment(
    names: Callable[[], Sequence[str]],
    load: Callable[[Sequence[str]], Mapping[str, bytes]],
    journal: str,
    decode: Callable[[bytes, str, str], Record] = decode_record,
) -> Journal:
    """Read a journal that others may be changing: repeat until it is the same before and after.

    A single listing may mix two moments: a claim from before another driver took over and a row from after it cleaned
    up look like a job that never published anything. `load` leaves out records that are gone.
    """
    before = names()
    for _ in range(MAX_READINGS):
        contents = load(before)
        after = names()
        if after == before and len(contents) == len(before):
            return Journal(decode(data, name, journal) for name, data in contents.items())
        before = after
    raise StorageError(
        f"the journal {journal} changed during each of {MAX_READINGS} reads; several drivers compete for the job: "
        "stop all but one"
    )


# Stores.


class MemoryJournal(JournalStore):
    """A journal lost with the driver: for jobs that keep checkpoints in the driver, and for tests."""

    outlives_driver = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}

    def read(self) -> Journal:
        with self._lock:
            return Journal(self._records.values())

    def create(self, record: Record) -> bool:
        with self._lock:
            if record.name in self._records:
                return False
            self._records[record.name] = record
            return True

    def delete(self, records: Iterable[Record]) -> None:
        with self._lock:
            for record in records:
                self._records.pop(record.name, None)


class ObjectJournal(JournalStore):
    """A journal in checkpoint storage: one small object per record, under `directory`.

    Locations of snapshots beside that directory are stored as `../chk-<n>`: a copy of a job's directory is a separate
    job, and never touches the checkpoints of the original.
    """

    outlives_driver = True

    def __init__(self, objects: ObjectStore, directory: str) -> None:
        self._objects = objects
        self._directory = directory.rstrip("/")
        self._beside = self._directory[: self._directory.rfind("/") + 1]

    def read(self) -> Journal:
        return read_at_one_moment(self._names, self._load, self._directory, self._decoded)

    def create(self, record: Record) -> bool:
        return self._objects.create(self._path(record.name), encode_record(self._relative(record)))

    def delete(self, records: Iterable[Record]) -> None:
        rows: dict[str, None] = {}
        for record in records:
            path = self._path(record.name)
            self._objects.delete([path])
            if record.name.startswith("rows/"):
                rows[path.rpartition("/")[0]] = None
        for row in rows:
            self._objects.sweep(row, lambda path: path.endswith("/"))

    def sweep(self) -> None:
        self._objects.sweep(self._directory, lambda path: f"/{TEMPORARY}" in path)

    def _relative(self, record: Record) -> Record:
        if record.location is None or not record.location.startswith(self._beside):
            return record
        return replace(record, location=_BESIDE + record.location.removeprefix(self._beside))

    def _decoded(self, data: bytes, name: str, journal: str) -> Record:
        record = decode_record(data, name, journal)
        if record.location is None or not record.location.startswith(_BESIDE):
            return record
        relative = record.location.removeprefix(_BESIDE)
        if not is_below(relative):
            raise _damaged(name, journal, f"its location {record.location!r} points outside the job's directory")
        return replace(record, location=self._beside + relative)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _names(self) -> list[str]:
        prefix = f"{self._directory}/"
        names = [info.path.removeprefix(prefix) for info in self._objects.list(self._directory)]
        return sorted(name for name in names if is_record_name(name))

    def _load(self, names: Sequence[str]) -> dict[str, bytes]:
        if not names:
            return {}
        with DaemonPool(min(PARALLEL_READS, len(names)), "snapline-journal") as pool:
            contents = pool.map(self._read, names)
            return {name: data for name, data in zip(names, contents, strict=True) if data is not None}

    def _read(self, name: str) -> bytes | None:
        try:
            return self._objects.read(self._path(name), 0, MAX_RECORD_BYTES)
        except ObjectNotFoundError:
            return None
