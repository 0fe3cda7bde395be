"""A driver's side of durable storage: the job's journal, the metadata of its snapshots, and what may be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from snapline.devtools.simulator.kernel import Process
from snapline.devtools.simulator.storage import SimStorage, location_of
from snapline.errors import StorageError
from snapline.protocol.journal import Journal, Publication, Record
from snapline.protocol.retention.orphans import orphans
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import Snapshot, StoredObject
from snapline.types import JobStatus

STORAGE_RETRIES = 3

T = TypeVar("T")


class Archive:
    """The storage of one job, as one driver uses it; `process` is that driver, its name the token of its records.

    What takes callbacks happens later, and they are called unless the driver has died. All else happens at once: it is
    for use inside an operation that was submitted, or on what is known already.
    """

    def __init__(self, storage: SimStorage, process: Process, job: str) -> None:
        self._storage = storage
        self._process = process
        self._job = job
        self._inline: dict[str, Any] = {}

    def submit(
        self,
        operation: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[StorageError], None],
        *,
        retries: int = STORAGE_RETRIES,
        metadata: bool = False,
    ) -> None:
        """Carry out an operation that may be repeated safely, with bounded retries."""

        def answered(result: Any) -> None:
            if not isinstance(result, StorageError):
                done(result)
            elif retries > 0:
                self.submit(operation, done, failed, retries=retries - 1, metadata=metadata)
            else:
                failed(result)

        self._storage.submit(self._process, operation, answered, metadata=metadata)

    # The journal.

    def read_journal(self) -> Journal:
        return Journal(self._storage.objects[path] for path in self._storage.list(f"{self._job}/journal/"))

    def delete_records(self, records: Iterable[Record]) -> None:
        self._storage.delete_all([self._record_path(record) for record in records])

    def claim(self, own: int, done: Callable[[Journal, bool], None], failed: Callable[[StorageError], None]) -> None:
        """Take the job over; `own` is the attempt this driver has run so far, 0 if none.

        Told is the journal, and whether its newest attempt is a new one of this driver. It is not if the job has ended,
        or another driver has taken over from this one.
        """
        token = self._process.name

        def is_ours(journal: Journal) -> bool:
            return journal.attempt > own and journal.owns(journal.attempt, token)

        def make(journal: Journal) -> Record | None:
            is_foreign = own > 0 and journal.attempt > own
            if journal.ended is not None or is_ours(journal) or is_foreign:
                return None
            return journal.take_over(token)

        self._append(make, lambda _, journal: done(journal, is_ours(journal)), failed)

    def publish(
        self,
        snapshot: Snapshot,
        published: Callable[[], None],
        fenced: Callable[[Journal, bool], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """Make a snapshot canonical. When the outcome of the append is unclear, the journal itself tells.

        Unless this driver is `fenced`: then the record may have been in the journal and have become obsolete since.
        Told is the journal, and whether an append had been sent at all.
        """
        token = self._process.name
        tries = STORAGE_RETRIES

        def make(journal: Journal) -> Record | None:
            nonlocal tries
            tries -= 1
            return journal.publish(snapshot, token) if tries > 0 else None

        def appended(record: Record | None, journal: Journal) -> None:
            if record is not None and journal.publication(record) is Publication.APPENDED:
                published()
            elif journal.publication(journal.publish(snapshot, token)) is Publication.OPEN:
                failed(StorageError("the journal could not be written"))
            else:
                fenced(journal, tries < STORAGE_RETRIES - 1)

        self._append(make, appended, failed, metadata=True)

    def close(
        self,
        attempt: int,
        status: JobStatus,
        done: Callable[[Journal], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """Close the job for ever, unless another driver has taken over from this one.

        What is still on its way can't be published behind this, and no other driver will run the job again. A driver
        that has run no `attempt` yet (0) takes over first: some other one may be running the job.
        """
        token = self._process.name

        def make(journal: Journal) -> Record | None:
            if journal.ended is not None:
                return None
            if journal.owns(journal.attempt, token):
                return journal.close(token, status)
            return journal.take_over(token) if attempt == 0 else None

        self._append(make, lambda _, journal: done(journal), failed)

    def _append(
        self,
        make: Callable[[Journal], Record | None],
        done: Callable[[Record | None, Journal], None],
        failed: Callable[[StorageError], None],
        *,
        metadata: bool = False,
    ) -> None:
        """Append what `make` derives from the journal until nothing is left to append.

        Whether an append was done is seen in the journal itself. Reported is the last record that was, or none if
        it is fenced, and the journal as it was read then.
        """
        storage = self._storage

        def read(wanted: Record | None) -> None:
            self.submit(self.read_journal, lambda journal: decide(journal, wanted), failed)

        def decide(journal: Journal, wanted: Record | None) -> None:
            record = make(journal)
            if record is None or journal.publication(record) is Publication.APPENDED:
                done(record if record is not None else wanted, journal)
                return
            if journal.publication(record) is Publication.FENCED:
                done(None, journal)
                return
            storage.submit(
                self._process,
                lambda: storage.create(self._record_path(record), record, record.attempt),
                lambda _: read(record),
                metadata=metadata,
            )

        read(None)

    def _record_path(self, record: Record) -> str:
        return f"{self._job}/journal/{record.name}"

    # Recovery.

    def recover(
        self,
        attempt: int,
        done: Callable[[Journal, list[Snapshot]], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """Read the journal and the snapshots it can recover from, and sweep what older attempts have left."""

        def read() -> tuple[Journal, list[Snapshot]]:
            journal = self.read_journal()
            snapshots = self.read_snapshots(journal.recovery_points)
            self.sweep(snapshots, attempt)
            return journal, snapshots

        self.submit(read, lambda result: done(*result), failed)

    def sweep(self, needed: Sequence[Snapshot], attempt: int, *, ended: bool = False) -> None:
        """Delete what attempts before this one have made and these snapshots do not refer to.

        Once the job has `ended`, what this attempt has made goes too.
        """
        listing = [(path, self._storage.made_by[path]) for path in self._own_objects()]
        self._storage.delete_all(orphans(listing, needed, attempt, ended=ended))

    def _own_objects(self) -> list[str]:
        """Everything of this job that a sweep may look at: all but savepoints that are whole."""
        storage = self._storage
        prefix = f"savepoints/{self._job}-"
        whole = {
            path.rsplit("/", 1)[0]
            for path in storage.list(prefix)
            if path.endswith("/_metadata") and self._is_whole(*storage.objects[path])
        }
        own = storage.list(f"{self._job}/chk-") + storage.list(f"{self._job}/shared/")
        return own + [path for path in storage.list(prefix) if path.rsplit("/", 1)[0] not in whole]

    def _is_whole(self, snapshot: Snapshot, inline: dict[str, Any]) -> bool:
        objects = self._storage.objects
        return all(item.path in objects or item.path in inline for item in snapshot.objects())

    # Ids and metadata.

    def reserve_id(
        self,
        attempt: int,
        request: str,
        after: int,
        done: Callable[[int], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """Reserve a checkpoint id above `after` that nobody has used, and nobody else ever will."""
        token = f"{self._process.name}:{request}"

        def appended(record: Record | None, _: Journal) -> None:
            assert record is not None
            assert record.checkpoint_id is not None
            done(record.checkpoint_id)

        self._append(lambda journal: journal.reserve_id(attempt, token, after=after), appended, failed)

    def create_location(
        self,
        checkpoint_id: int,
        done: Callable[[str], None],
        failed: Callable[[StorageError], None],
        *,
        is_savepoint: bool,
    ) -> None:
        location = location_of(self._job, checkpoint_id, is_savepoint=is_savepoint)
        self.submit(lambda: None, lambda _: done(location), failed)

    def hold_inline(self, attempt: int, checkpoint_id: int, name: str, value: Sequence[Any]) -> StoredObject:
        """Keep small state that is written with the metadata."""
        path = f"inline/{self._job}/{attempt}/{checkpoint_id}/{name}"
        self._inline[path] = tuple(value)
        return StoredObject(path, len(value))

    def read_inline(self, item: StoredObject) -> Sequence[Any]:
        """What was held here, or came with metadata that was read."""
        value: Sequence[Any] = self._inline[item.path]
        return value

    def has_metadata(self, snapshot: Snapshot) -> bool:
        return snapshot.metadata_path in self._storage.objects

    def read_metadata(self, location: str) -> Snapshot:
        snapshot, inline = self._storage.read(f"{location}/_metadata")
        self._inline.update(inline)
        assert isinstance(snapshot, Snapshot)
        return snapshot

    def read_snapshots(self, records: Iterable[Record], *, ended: bool = False) -> list[Snapshot]:
        """What records name. Once the job has `ended` another one may have claimed a snapshot, and deleted it."""
        locations = [str(record.location) for record in records]
        if ended:
            locations = [location for location in locations if f"{location}/_metadata" in self._storage.objects]
        return [self.read_metadata(location) for location in locations]

    def write_metadata(
        self, snapshot: Snapshot, done: Callable[[bool], None], failed: Callable[[StorageError], None]
    ) -> None:
        """Write metadata, only if it is not there; told is whether what is there now is this attempt's."""
        storage, path = self._storage, snapshot.metadata_path
        inline = {item.path: self._inline[item.path] for item in snapshot.objects() if item.path in self._inline}

        def write() -> bool:
            storage.create(path, (snapshot, inline), snapshot.attempt)
            return storage.made_by[path] == snapshot.attempt

        self.submit(write, done, failed, retries=1, metadata=True)

    # Deletion.

    def delete(self, paths: Sequence[str]) -> None:
        """Delete if possible; a later sweep finds what could not be deleted."""
        if paths:
            self.submit(lambda: self._storage.delete_all(paths), lambda _: None, lambda _: None)

    def discard(self, objects: Iterable[StoredObject], location: str | None, attempt: int) -> None:
        """Delete what is left of a checkpoint that came to nothing, with its metadata if that is this attempt's."""
        paths = [item.path for item in objects]
        metadata = f"{location}/_metadata"
        if self._storage.made_by.get(metadata) == attempt:
            paths.append(metadata)
        self.delete(paths)

    def delete_snapshot(self, snapshot: Snapshot, retained: RetainedSnapshots, done: Callable[[], None]) -> None:
        """First the pointer, then what it points to: a journal never names a checkpoint that is half gone.

        Told is only that it is over; a later sweep finds what could not be deleted.
        """

        def delete() -> None:
            kept = [entry.id for entry in retained.snapshots]
            self.delete_records(self.read_journal().obsolete(kept))
            self._storage.delete_all(item.path for item in snapshot.objects() if item.shared_key is None)
            self._storage.delete(snapshot.metadata_path)

        self.submit(delete, lambda _: done(), lambda _: done())

    def delete_foreign(self, snapshot: Snapshot, needed: Iterable[Snapshot]) -> None:
        """Delete a snapshot of another run, but nothing that these refer to."""
        kept = {item.path for other in needed for item in other.objects()}
        paths = [item.path for item in snapshot.objects() if item.path not in kept]
        self._storage.delete_all([*paths, snapshot.metadata_path])
