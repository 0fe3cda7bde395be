"""Records as bytes, and reads while others write; `tests/contract/test_journals.py` covers every store."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from snapline.errors import DamagedError, StorageError
from snapline.protocol.journal import Journal, Record, RecordKind
from snapline.storage.journals.journal_store import (
    MAX_READINGS,
    ObjectJournal,
    decode_record,
    encode_record,
    is_record_name,
    read_at_one_moment,
)
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.types import JobStatus

CLAIM = Record(RecordKind.CLAIM, 1, "me")
RECORDS = (
    CLAIM,
    Record(RecordKind.END, 2, "me", status=JobStatus.CANCELED),
    Record(RecordKind.ID, 1, "me:request", checkpoint_id=7),
    Record(RecordKind.CHECKPOINT, 1, "me", 0, 7, "s3://bucket/ä ö/chk-7"),
    Record(RecordKind.SEAL, 1, "me", 3),
)


def test_a_read_that_others_interfere_with_is_repeated() -> None:
    """The first listing still has the claim of a driver whose successor has published and cleaned up."""
    seal, claim = Record(RecordKind.SEAL, 1, "a", 1), Record(RecordKind.CLAIM, 2, "b")
    old = [CLAIM, Record(RecordKind.CHECKPOINT, 1, "me", 0, 1, "chk-1")]
    new = [claim, seal, Record(RecordKind.CHECKPOINT, 2, "b", 0, 2, "chk-2")]
    contents = {record.name: record for record in old}
    readings = 0

    def names() -> list[str]:
        return sorted(contents)

    def load(wanted: Iterable[str]) -> dict[str, bytes]:
        nonlocal readings
        readings += 1
        if readings == 1:
            contents.clear()
            contents.update({record.name: record for record in new})
        return {name: encode_record(contents[name]) for name in wanted if name in contents}

    assert read_at_one_moment(names, load, "journal").records == Journal(new).records
    assert readings == 2


def test_a_journal_that_never_holds_still_is_an_error() -> None:
    count = 0

    def names() -> list[str]:
        nonlocal count
        count += 1
        return [Record(RecordKind.CLAIM, count, "me").name]

    with pytest.raises(StorageError, match=f"each of {MAX_READINGS} reads"):
        read_at_one_moment(names, lambda _: {}, "journal")


def test_locations_beside_a_journal_are_stored_relative_to_it() -> None:
    objects = MemoryObjects()
    journal = ObjectJournal(objects, "memory://jobs/one/journal")
    places = ["memory://jobs/one/chk-1", "memory://jobs/one-more/chk-1", "s3://savepoints/savepoint-1"]
    for sequence, place in enumerate(places):
        record = Record(RecordKind.CHECKPOINT, 1, "me", sequence, sequence + 1, place)
        assert journal.create(record)
        assert record in journal.read().records
    stored = [json.loads(objects.read(info.path))["location"] for info in objects.list("memory://jobs/one/journal")]
    assert stored == ["../chk-1", *places[1:]]
    for stray in ("../../other/chk-1", "../", "..//chk-1", "../chk-1/../../x"):
        record = Record(RecordKind.CHECKPOINT, 1, "me", 0, 1, stray)
        objects.write(f"memory://jobs/one/journal/{record.name}", encode_record(record))
        with pytest.raises(DamagedError, match="points outside the job's directory"):
            journal.read()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind.value)
def test_a_record_is_decoded_as_it_was_encoded(record: Record) -> None:
    assert decode_record(encode_record(record), record.name, "journal") == record
    assert is_record_name(record.name)


def test_a_record_is_stored_as_plain_json() -> None:
    assert encode_record(RECORDS[3]).startswith(b'{"version":1,"kind":"CHECKPOINT","attempt":1,"token":"me"')


@pytest.mark.parametrize("name", ["claims/README", "claims/1", "rows/something", "rows/1/2", f"other/{0:019}", ""])
def test_other_files_are_not_records(name: str) -> None:
    assert not is_record_name(name)


def test_a_record_under_another_name_is_damaged() -> None:
    with pytest.raises(DamagedError, match=f"it holds the record {CLAIM.name}"):
        decode_record(encode_record(CLAIM), RECORDS[1].name, "journal")
