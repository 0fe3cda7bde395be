"""The journal: who may publish, what is canonical, and what may be deleted."""

from __future__ import annotations

import pytest

from snapline.protocol.journal import Journal, Publication, Record, RecordKind
from snapline.protocol.snapshot import Snapshot
from snapline.types import NO_CHECKPOINT, JobStatus, SnapshotKind

_WORDS = {"S": RecordKind.SAVEPOINT, "X": RecordKind.STOP}


def journal(*parts: str) -> Journal:
    """A journal from a script: `c2` is the claim of attempt 2, `e3` an end in place of the claim of attempt 3.

    `2: 5 S6 X7 . =` is the row of attempt 2 with checkpoint 5, savepoint 6, savepoint 7 to stop with, a number whose
    record was deleted, and a seal.
    """
    return Journal(record for part in parts for record in _records(part))


def _records(part: str) -> list[Record]:
    if ":" not in part:
        make = {"c": claim, "e": end, "f": failure}[part[0]]
        return [make(int(part[1:]))]
    attempt, row = part.split(":")
    return [entry(int(attempt), sequence, word) for sequence, word in enumerate(row.split()) if word != "."]


def claim(attempt: int, token: str | None = None) -> Record:
    return Record(RecordKind.CLAIM, attempt, token if token is not None else f"driver-{attempt}")


def end(attempt: int) -> Record:
    return Record(RecordKind.END, attempt, f"driver-{attempt - 1}", status=JobStatus.FINISHED)


def failure(attempt: int) -> Record:
    return Record(RecordKind.END, attempt, f"driver-{attempt - 1}", status=JobStatus.FAILED)


def entry(attempt: int, sequence: int, word: str) -> Record:
    if word == "=":
        return Record(RecordKind.SEAL, attempt, "the next driver", sequence)
    kind, checkpoint_id = _WORDS.get(word[0], RecordKind.CHECKPOINT), int(word.lstrip("SX"))
    return Record(kind, attempt, f"driver-{attempt}", sequence, checkpoint_id, f"chk-{checkpoint_id}")


def snapshot(checkpoint_id: int, attempt: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Snapshot:
    return Snapshot(checkpoint_id, kind, attempt, 0, f"chk-{checkpoint_id}", {})


def ids(records: tuple[Record, ...]) -> list[int | None]:
    return [record.checkpoint_id for record in records]


def latest_id(read: Journal) -> int | None:
    return None if read.latest is None else read.latest.checkpoint_id


def obsolete(read: Journal, *retained: int) -> list[Record]:
    return list(read.obsolete(retained))


# --- taking over -----------------------------------------------------------------------------------------------------


def test_an_empty_journal_belongs_to_nobody() -> None:
    empty = journal()
    assert (empty.attempt, empty.ended, empty.latest, empty.canonical) == (0, None, None, ())
    assert empty.take_over("me") == Record(RecordKind.CLAIM, 1, "me", lineage="me")


def test_names_tell_records_apart_and_sort_like_their_numbers() -> None:
    assert claim(2).name == "claims/0000000000000000002"
    assert end(2).name == claim(2).name, "an end takes the place of a claim"
    names = [entry(2, 9, "1").name, entry(2, 10, "2").name, entry(10, 0, "3").name]
    assert names == sorted(names)
    assert entry(2, 0, "=").name == entry(2, 0, "5").name, "a seal takes the place of a snapshot"


def test_records_are_read_in_order_of_their_names() -> None:
    records = journal("c1", "1: 1 2 3").records
    assert Journal(reversed(records)).records == records


def test_a_driver_that_takes_over_seals_the_newest_row_and_then_claims() -> None:
    assert journal("c1", "1: 1 2").take_over("me") == Record(RecordKind.SEAL, 1, "me", 2)
    assert journal("c1").take_over("me") == Record(RecordKind.SEAL, 1, "me", 0)
    assert journal("c1", "1: 1 2 =").take_over("me") == Record(RecordKind.CLAIM, 2, "me", lineage="me")


def test_the_newest_claim_owns_the_job_and_only_for_its_own_driver() -> None:
    read = journal("c1", "1: =", "c2")
    assert read.attempt == 2
    assert read.owns(2, "driver-2")
    assert not read.owns(2, "driver-1")
    assert not read.owns(1, "driver-1")
    assert not journal().owns(0, "driver-0")


def test_a_job_is_closed_by_an_end_in_place_of_the_next_claim() -> None:
    assert journal("c1", "1: 1").close("me", JobStatus.CANCELED) == Record(RecordKind.SEAL, 1, "me", 1)
    assert journal("c1", "1: 1 =").close("me", JobStatus.CANCELED) == Record(
        RecordKind.END, 2, "me", status=JobStatus.CANCELED
    )
    closed = journal("c1", "1: 1 =", "e2")
    assert closed.ended is JobStatus.FINISHED
    assert closed.attempt == 2
    assert not closed.owns(2, "driver-1")
    assert ids(closed.canonical) == [1]


def test_a_job_that_failed_has_ended_but_is_not_closed() -> None:
    assert journal("c1", "1: 1 =", "e2").is_closed
    assert not journal("c1").is_closed
    failed = journal("c1", "1: 1 =", "f2")
    assert failed.ended is JobStatus.FAILED
    assert not failed.is_closed
    assert not failed.owns(2, "driver-1")


def test_a_driver_goes_on_behind_a_failure_as_behind_any_attempt() -> None:
    failed = journal("c1", "1: 1 =", "f2")
    assert failed.take_over("me") == Record(RecordKind.SEAL, 2, "me", 0)
    assert journal("c1", "1: 1 =", "f2", "2: =").take_over("me") == Record(RecordKind.CLAIM, 3, "me", lineage="me")
    read = journal("c1", "1: 1 =", "f2", "2: =", "c3")
    assert (read.attempt, read.ended, latest_id(read)) == (3, None, 1)
    assert read.owns(3, "driver-3")


def test_the_journal_shows_the_failure_before_to_the_first_attempt_since() -> None:
    assert journal("c1", "1: 1 =", "f2").failed_before is None
    assert journal("c1", "1: 1 =", "f2", "2: =", "c3").failed_before == 1
    assert journal("c1", "1: 1 =", "f2", "2: =", "c3", "3: =", "c4").failed_before is None
    assert journal("c1").failed_before is None


def test_the_newest_end_stays_in_the_journal() -> None:
    read = journal("c1", "1: 1 =", "f2", "2: =", "c3", "3: =", "f4", "4: =", "c5")
    assert [record.name for record in obsolete(read, 1) if record.kind.is_claim] == [
        record.name for record in (claim(1), failure(2), claim(3))
    ]


def test_an_end_that_is_not_the_newest_ends_nothing() -> None:
    assert journal("e2", "c3").ended is None
    assert journal("c3", "e2").attempt == 3


# --- canonical -------------------------------------------------------------------------------------------------------


def test_what_the_newest_attempt_and_sealed_ones_published_is_canonical_oldest_first() -> None:
    read = journal("c2", "1: 1 2 =", "2: 3")
    assert ids(read.canonical) == [1, 2, 3]
    assert latest_id(read) == 3


def test_the_order_is_that_of_attempts_and_numbers_not_of_names_as_text() -> None:
    rows = [f"{attempt}: {attempt} =" for attempt in range(1, 12)]
    assert ids(journal("c11", *rows).canonical) == list(range(1, 12))


def test_a_claim_alone_changes_nothing_about_where_a_recovery_starts() -> None:
    assert latest_id(journal("c3", "1: 1 =", "2: =")) == 1


def test_what_stands_in_an_older_row_without_a_seal_is_a_stray() -> None:
    assert ids(journal("c3", "1: . . 9", "2: 3 =", "3: 4").canonical) == [3, 4]


def test_a_seal_counts_only_at_the_end_of_its_row() -> None:
    assert ids(journal("c2", "1: 1 = 9").canonical) == []
    assert ids(journal("c2", "1: = 1 =").canonical) == [1]


def test_the_row_of_an_attempt_that_was_never_claimed_counts_for_nothing() -> None:
    assert journal("1: 1").canonical == ()
    assert ids(journal("c1", "1: 1", "3: 9").canonical) == [1]
    assert ids(journal("c1", "1: 1", "3: 9 =").canonical) == [1]


def test_a_recovery_starts_from_checkpoints_and_from_the_savepoint_the_job_was_to_stop_with() -> None:
    read = journal("c1", "1: 1 X2")
    assert ids(read.recovery_points) == [1, 2]
    assert latest_id(read) == 2


def test_a_plain_savepoint_is_canonical_but_no_place_to_recover_from() -> None:
    read = journal("c1", "1: 1 S2")
    assert ids(read.canonical) == [1, 2]
    assert ids(read.recovery_points) == [1]
    assert latest_id(read) == 1
    assert journal("c1", "1: S1").latest is None


def test_what_was_prepared_may_be_wanted_up_to_the_newest_snapshot_of_any_sort() -> None:
    assert journal("c1").prepared_until == NO_CHECKPOINT
    assert journal("c1", "1: 1 S2").prepared_until == 2
    assert journal("c3", "1: 9", "2: 3 =").prepared_until == 3, "a stray wants nothing"


# --- publication -----------------------------------------------------------------------------------------------------


def test_a_snapshot_takes_the_next_number_of_its_attempts_row() -> None:
    made = journal("c1", "1: 1 . 2").publish(snapshot(3, 1), "me")
    assert made == Record(RecordKind.CHECKPOINT, 1, "me", 3, 3, "chk-3")
    assert journal("c1").publish(snapshot(1, 1), "me").sequence == 0


@pytest.mark.parametrize(
    ("kind", "recorded"),
    [
        (SnapshotKind.CHECKPOINT, RecordKind.CHECKPOINT),
        (SnapshotKind.SAVEPOINT, RecordKind.SAVEPOINT),
        (SnapshotKind.SYNC_SAVEPOINT, RecordKind.STOP),
    ],
)
def test_a_record_says_what_sort_of_snapshot_it_stands_for(kind: SnapshotKind, recorded: RecordKind) -> None:
    assert journal("c1").publish(snapshot(2, 1, kind), "me").kind is recorded


def test_a_snapshot_that_is_canonical_was_appended_whatever_number_it_got() -> None:
    wanted = journal("c1").publish(snapshot(1, 1), "driver-1")
    assert journal("c1", "1: 1").publication(wanted) is Publication.APPENDED
    assert journal("c1", "1: 9 1").publication(wanted) is Publication.APPENDED


def test_a_snapshot_stays_appended_when_its_driver_is_fenced() -> None:
    wanted = journal("c1").publish(snapshot(1, 1), "driver-1")
    assert journal("c1", "1: 1 =").publication(wanted) is Publication.APPENDED
    assert journal("c2", "1: 1 =").publication(wanted) is Publication.APPENDED


def test_a_snapshot_may_be_tried_again_while_its_row_is_the_newest_and_open() -> None:
    wanted = journal("c1").publish(snapshot(2, 1), "driver-1")
    assert journal("c1", "1: 1").publication(wanted) is Publication.OPEN
    assert journal("c1", "1: 1 =").publication(wanted) is Publication.FENCED
    assert journal("c1", "1: =", "c2").publication(wanted) is Publication.FENCED
    assert journal().publication(wanted) is Publication.FENCED


@pytest.mark.parametrize("kind", [SnapshotKind.SYNC_SAVEPOINT, SnapshotKind.SAVEPOINT])
def test_a_savepoint_is_not_the_checkpoint_of_the_same_id(kind: SnapshotKind) -> None:
    wanted = journal("c1").publish(snapshot(1, 1, kind), "driver-1")
    assert journal("c1", "1: 1").publication(wanted) is Publication.OPEN


def test_another_drivers_record_of_the_same_checkpoint_is_not_ones_own() -> None:
    wanted = journal("c1").publish(snapshot(1, 1), "somebody else")
    assert journal("c1", "1: 1").publication(wanted) is Publication.OPEN


def test_a_stray_is_fenced_although_it_was_written() -> None:
    wanted = journal("c1", "1: 1").publish(snapshot(2, 1), "driver-1")
    written = journal("c3", "1: . 2", "2: =", "3: 4")
    assert written.records[1].is_same(wanted)
    assert written.publication(wanted) is Publication.FENCED


@pytest.mark.parametrize("wanted", [claim(2), end(2)])
def test_a_claim_or_end_is_open_until_somebody_has_that_number(wanted: Record) -> None:
    assert journal().publication(wanted) is Publication.OPEN
    assert journal("c1", "1: =").publication(wanted) is Publication.OPEN
    assert Journal([claim(1), wanted]).publication(wanted) is Publication.APPENDED
    assert Journal([claim(1), claim(2, "somebody else")]).publication(wanted) is Publication.FENCED
    assert Journal([wanted, claim(3)]).publication(wanted) is Publication.FENCED


def test_an_end_is_not_the_claim_of_the_same_number() -> None:
    ours = Record(RecordKind.END, 2, "me", status=JobStatus.FAILED)
    assert Journal([ours]).publication(claim(2, "me")) is Publication.FENCED


def test_it_does_not_matter_who_sealed_a_row() -> None:
    wanted = journal("c1").take_over("me")
    assert journal("c1").publication(wanted) is Publication.OPEN
    assert journal("c1", "1: 1").publication(wanted) is Publication.OPEN, "the driver was quicker: seal behind it"
    assert journal("c1", "1: 1 =").publication(wanted) is Publication.APPENDED
    assert journal("c2").publication(wanted) is Publication.APPENDED


# --- ids -------------------------------------------------------------------------------------------------------------


def reserved(checkpoint_id: int, attempt: int = 1, token: str = "me") -> Record:
    return Record(RecordKind.ID, attempt, token, checkpoint_id=checkpoint_id)


def test_ids_start_at_one_and_go_up() -> None:
    assert journal("c1").reserve_id(1, "me") == reserved(1)
    assert Journal([reserved(1, token="before"), reserved(9, token="later")]).reserve_id(1, "me") == reserved(10)


def test_an_id_is_above_all_that_were_used_before() -> None:
    assert journal("c1").reserve_id(1, "me", after=7) == reserved(8)
    assert Journal([reserved(9, token="another")]).reserve_id(1, "me", after=7) == reserved(10)


def test_a_reservation_that_was_made_is_found_again() -> None:
    mine = reserved(4, attempt=2)
    assert Journal([reserved(3), mine]).reserve_id(2, "me", after=9) == mine
    assert Journal([mine]).reserve_id(1, "me").checkpoint_id == 5, "that was another attempt"
    assert Journal([mine]).reserve_id(2, "somebody else").checkpoint_id == 5


def test_only_the_newest_reservation_counts() -> None:
    mine = reserved(4)
    assert Journal([mine]).publication(mine) is Publication.APPENDED
    assert Journal().publication(mine) is Publication.OPEN
    assert Journal([mine, reserved(5, token="another")]).publication(mine) is Publication.OPEN
    assert Journal([reserved(4, token="another")]).publication(mine) is Publication.OPEN


def test_reservations_are_no_snapshots_and_only_the_newest_is_needed() -> None:
    read = Journal([claim(1), reserved(1), reserved(2), entry(1, 0, "1")])
    assert ids(read.canonical) == [1]
    assert read.prepared_until == 1
    assert obsolete(read, 1) == [reserved(1)]


def test_names_of_reservations_sort_like_their_ids() -> None:
    assert reserved(9).name < reserved(10).name
    assert reserved(1, attempt=2).name == reserved(1).name, "an id is reserved once, by whichever attempt"


# --- deletion --------------------------------------------------------------------------------------------------------


def test_checkpoints_that_are_not_retained_are_obsolete() -> None:
    read = journal("c1", "1: 1 2 3")
    assert obsolete(read, 2, 3) == [entry(1, 0, "1")]
    assert obsolete(read, 3) == [entry(1, 0, "1"), entry(1, 1, "2")]


def test_where_a_recovery_starts_is_never_obsolete() -> None:
    assert obsolete(journal("c1", "1: 1 2")) == [entry(1, 0, "1")]
    assert obsolete(journal("c1", "1: 1 X2"), 1) == []
    assert obsolete(journal("c2", "1: 1 =")) == []


def test_a_savepoint_to_stop_with_is_obsolete_once_there_is_something_newer() -> None:
    assert obsolete(journal("c2", "1: 1 X2 =", "2: 3"), 1, 2, 3) == [entry(1, 1, "X2")]


def test_a_plain_savepoint_is_obsolete_once_a_recovery_would_not_go_back_behind_it() -> None:
    assert obsolete(journal("c1", "1: S1")) == []
    assert obsolete(journal("c2", "1: 1 S2 =")) == []
    assert obsolete(journal("c2", "1: 1 S2 =", "2: 3"), 1, 3) == [entry(1, 1, "S2")]


def test_strays_are_obsolete_even_if_their_id_is_retained() -> None:
    assert obsolete(journal("c3", "1: 2", "2: =", "3: 2"), 2) == [entry(1, 0, "2")]
    assert obsolete(journal("c2", "1: = 1 =", "2: 2"), 1, 2) == [entry(1, 0, "=")]


def test_only_the_newest_claim_is_needed() -> None:
    read = journal("c1", "c2", "c3", "1: 1 =", "2: 2 =", "3: 3")
    assert obsolete(read, 1, 2, 3) == [claim(1), claim(2)]
    assert obsolete(journal("c1", "1: 1 =", "e2"), 1) == [claim(1)]


def test_a_seal_stays_as_long_as_something_in_its_row_is_kept() -> None:
    read = journal("c3", "1: 1 =", "2: 2 =", "3: 3")
    assert obsolete(read, 1, 3) == [entry(2, 0, "2")]
    assert obsolete(read, 2, 3) == [entry(1, 0, "1"), entry(1, 1, "=")]


def test_the_seals_of_the_newest_row_and_the_one_before_stay() -> None:
    assert obsolete(journal("c3", "1: =", "2: =", "3: 3 ="), 3) == [entry(1, 0, "=")]
    assert obsolete(journal("c3", "2: =", "3: =")) == []


def test_the_lineage_goes_from_claim_to_claim_and_through_ends() -> None:
    first = Journal().take_over("a driver with a long name")
    assert first.lineage == "a driver wit"
    seal = Journal([first]).take_over("second")
    claimed = Journal([first, seal]).take_over("second")
    assert (claimed.kind, claimed.lineage) == (RecordKind.CLAIM, first.lineage)
    sealed = Record(RecordKind.SEAL, 2, "second", 0)
    ended = Journal([first, seal, claimed, sealed]).close("second", JobStatus.FAILED)
    assert (ended.kind, ended.lineage) == (RecordKind.END, first.lineage)
    assert Journal([first, seal, claimed, sealed, ended]).lineage == first.lineage
