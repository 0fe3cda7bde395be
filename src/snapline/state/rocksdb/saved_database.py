"""Opening the database of a snapshot, to read states from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from snapline.protocol.snapshot import StoredObject
from snapline.state.rocksdb.change_log import read_changes
from snapline.state.rocksdb.entry_writer import write_rows
from snapline.state.rocksdb.rocksdb_files import Listing, fetch_files, open_database
from snapline.storage.snapshot_reader import SnapshotReader

if TYPE_CHECKING:
    from rocksdict import Rdict


@contextmanager
def saved_database(listing: Listing, files: Sequence[StoredObject], source: SnapshotReader) -> Iterator[Rdict]:
    """Open a saved database for reading, in a temporary directory, with all changes made to it."""
    with TemporaryDirectory(prefix="snapline-") as name:
        directory = Path(name)
        fetch_files(directory / "db", listing.files, files, source)
        database = open_database(directory / "db", read_only=not listing.changes)
        entries = {entry.id: entry for entry in listing.states}
        try:
            for changes in listing.changes:
                for state, table in read_changes(directory / "db" / changes, changes):
                    if state in entries:
                        write_rows(database, directory / "changes.sst", entries[state], table)
            yield database
        finally:
            database.close()
