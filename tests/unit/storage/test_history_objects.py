"""The histories of several drivers in one directory: who writes, who reads, and what of it counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapline.devtools.kit.sample_views import sample_view
from snapline.protocol.journal import Journal, Record, RecordKind
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.protocol.statistics.checkpoint_records import StatisticsSnapshot
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.protocol.statistics.job_past import JobPast, PublishedSnapshot
from snapline.storage import snapshot_metadata
from snapline.storage.history_format import encode
from snapline.storage.history_objects import HistoryObjects, history_of, published_snapshots
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.types import SnapshotKind

JOB = "memory://jobs/job"
DIRECTORY = f"{JOB}/monitor"


def past(*ids: int, attempt: int = 1, absorbed: tuple[str, ...] = ()) -> JobPast:
    statistics = CheckpointStatistics()
    for number in ids:
        statistics.created(number, SnapshotKind.CHECKPOINT, None, number * 1000, {"a": 1}, unaligned=False)
        statistics.completed(number, number * 1000 + 10, f"{JOB}/chk-{number}")
    view = replace(sample_view(), statistics=statistics.snapshot(), attempt=attempt)
    return JobPast(view, statistics.totals, absorbed)


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


def found_ids(contents: dict[str, bytes]) -> list[int]:
    found = history_of(contents, lambda _: None).past
    assert found is not None
    return [record.id for record in found.view.statistics.history]


def test_each_driver_has_a_file_of_its_own(objects: MemoryObjects) -> None:
    history = HistoryObjects(objects, DIRECTORY)
    first, second = history.name(2, "a" * 32), history.name(10, "b")
    for name, data in ((second, b"2"), (first, b"1")):
        history.write(name, data)
    objects.write(f"{DIRECTORY}/address.json", b"{}")
    objects.write(f"{DIRECTORY}/history-x-y.json.gz", b"not ours")
    assert list(history.contents().items()) == [(first, b"1"), (second, b"2")], "by attempt, and nobody else's files"
    assert history.exists(first)
    history.delete([first, "history-3-gone.json.gz"])
    assert not history.exists(first)
    assert list(history.contents()) == [second]


def test_nothing_is_found_where_nothing_is(objects: MemoryObjects) -> None:
    found = history_of(HistoryObjects(objects, DIRECTORY).contents(), lambda _: [])
    assert (found.past, found.names, found.warnings) == (None, (), ())


def test_drivers_that_did_not_hear_of_each_other_add_up() -> None:
    contents = {"history-1-a.json.gz": encode(past(1, 2)), "history-2-b.json.gz": encode(past(3, attempt=2))}
    assert found_ids(contents) == [3, 2, 1]
    found = history_of(contents, lambda _: None)
    assert found.names == tuple(contents)
    assert found.past is not None
    assert found.past.absorbed == tuple(contents)


def test_what_a_later_driver_has_absorbed_is_not_counted_twice() -> None:
    # the first driver, which was taken for dead, has written once more
    zombie, later = encode(past(1, 2, 9)), past(1, 2, 3, attempt=2, absorbed=("history-1-a.json.gz",))
    contents = {"history-1-a.json.gz": zombie, "history-2-b.json.gz": encode(later)}
    assert found_ids(contents) == [3, 2, 1]
    found = history_of(contents, lambda _: None)
    assert found.names == tuple(contents), "both may go"


def test_a_damaged_one_is_left_out_with_a_warning() -> None:
    contents = {"history-1-a.json.gz": b"?", "history-2-b.json.gz": encode(past(3, attempt=2))}
    assert found_ids(contents) == [3]
    found = history_of(contents, lambda _: None)
    assert [("history-1-a.json.gz" in text, "damaged" in text) for text in found.warnings] == [(True, True)]
    assert set(found.names) == set(contents), "nobody will ever read it"
    alone = history_of({"history-1-a.json.gz": b"?"}, lambda _: None)
    assert (alone.past, alone.names) == (None, ("history-1-a.json.gz",))


def test_one_of_a_later_version_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr("snapline.storage.history_format.FORMAT_VERSION", 2)
        newer = encode(past(1))
    contents = {"history-1-a.json.gz": newer, "history-2-b.json.gz": encode(past(3, attempt=2))}
    found = history_of(contents, lambda _: None)
    assert found.names == ("history-2-b.json.gz",)
    assert [("format 2" in text, "left in place" in text) for text in found.warnings] == [(True, True)]


def test_the_journal_is_asked_for_what_is_newer() -> None:
    asked: list[int] = []

    def published(known: int) -> list[PublishedSnapshot]:
        asked.append(known)
        return [PublishedSnapshot(7, SnapshotKind.CHECKPOINT, f"{JOB}/chk-7", 7000)]

    found = history_of({"history-1-a.json.gz": encode(past(1, 2))}, published)
    assert asked == [2]
    assert found.past is not None
    assert [record.id for record in found.past.view.statistics.history] == [7, 2, 1]


# What is published.


def snapshot(number: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT, location: str = "") -> Snapshot:
    location = location or f"{JOB}/chk-{number}"
    parts = (
        KeyedPart(
            KeyGroupRange(0, 127),
            (StoredObject(f"{location}/a", 10), StoredObject(f"{JOB}/shared/b", 30, shared_key="b")),
        ),
    )
    operators = {"a": OperatorState("a", 1, 128, {0: SubtaskState(keyed=parts)})}
    return Snapshot(number, kind, 1, number * 1000, location, operators)


def journal(*records: tuple[RecordKind, int, str]) -> Journal:
    rows = [
        Record(kind, 1, "t", sequence, number, location) for sequence, (kind, number, location) in enumerate(records)
    ]
    return Journal([Record(RecordKind.CLAIM, 1, "t"), *rows])


def test_published_snapshots_are_those_whose_files_exist(objects: MemoryObjects) -> None:
    for number in (1, 3):
        made = snapshot(number)
        objects.write(made.metadata_path, snapshot_metadata.encode(made))
    objects.write(f"{JOB}/chk-4/_metadata", b"damaged")
    elsewhere = snapshot(5, SnapshotKind.SAVEPOINT, "memory://savepoints/5")
    objects.write(elsewhere.metadata_path, snapshot_metadata.encode(elsewhere))
    recorded = journal(
        *((RecordKind.CHECKPOINT, number, f"{JOB}/chk-{number}") for number in (1, 2, 3, 4)),
        (RecordKind.SAVEPOINT, 5, "memory://savepoints/5"),
        (RecordKind.STOP, 6, "memory://savepoints/6"),
    )
    assert published_snapshots(objects, recorded, JOB, known=1) == [
        PublishedSnapshot(1, SnapshotKind.CHECKPOINT, f"{JOB}/chk-1"),
        PublishedSnapshot(3, SnapshotKind.CHECKPOINT, f"{JOB}/chk-3", 3000, None, 40, 10),
        PublishedSnapshot(4, SnapshotKind.CHECKPOINT, f"{JOB}/chk-4"),
        # outside the job's directory nothing is read
        PublishedSnapshot(5, SnapshotKind.SAVEPOINT, "memory://savepoints/5"),
        PublishedSnapshot(6, SnapshotKind.SYNC_SAVEPOINT, "memory://savepoints/6"),
    ]


def test_an_empty_history_is_one() -> None:
    view = replace(sample_view(), statistics=StatisticsSnapshot())
    found = history_of({"history-1-a.json.gz": encode(JobPast(view, {}))}, lambda known: [] if known == 0 else None)
    assert found.past is not None
    assert found.past.view.statistics == StatisticsSnapshot()
