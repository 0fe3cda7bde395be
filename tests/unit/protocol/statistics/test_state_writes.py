"""Why writing state took long: skew, growth, slow storage and much state are told apart."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.protocol.statistics.view_kit import TRIGGER_MS, answer, record_of, task_of

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.explanation import SlowCause
from snapline.protocol.statistics.state_writes import COMPARED, comparable, explain_write
from snapline.types import SnapshotKind, SubtaskId

MB = 1_000_000
ID = SubtaskId("counts", 1)


def written(
    *subtasks: tuple[int, int], id: int = 9, trigger_ms: int = TRIGGER_MS, kind: SnapshotKind = SnapshotKind.CHECKPOINT
) -> CheckpointRecord:
    """Subtasks of `counts` with their bytes and milliseconds."""
    parts = [
        answer(took_ms + 10, async_ms=took_ms, checkpointed_bytes=size, state_bytes=size) for size, took_ms in subtasks
    ]
    return record_of({"counts": parts}, id=id, completed_ms=10_000, trigger_ms=trigger_ms, kind=kind)


def history(*records: Sequence[tuple[int, int]]) -> list[CheckpointRecord]:
    """Earlier ones, newest first."""
    return [
        written(*parts, id=8 - number, trigger_ms=TRIGGER_MS - 60_000 * (number + 1))
        for number, parts in enumerate(records)
    ]


def test_slow_storage_is_told_with_its_speed() -> None:
    said = explain_write(written((8 * MB, 4000), (8 * MB, 4000)), ID, task_of("counts", 1), [])
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.SLOW_STORAGE, *ID)
    assert said.sentence == (
        "subtask 1 of `counts` took 4.0 s to write 8.0 MB of state (2.0 MB/s): storage on host is slow"
    )


def test_storage_that_was_quicker_before_has_slowed_down() -> None:
    before = history([(400 * MB, 2000), (400 * MB, 2000)])
    said = explain_write(written((400 * MB, 9000), (400 * MB, 9000)), ID, None, before)
    assert said.cause is SlowCause.SLOW_STORAGE
    assert "it took 200.0 MB/s in the checkpoints before" in said.sentence


def test_one_machine_that_is_slow_is_named() -> None:
    said = explain_write(written((8 * MB, 100), (8 * MB, 4000), (8 * MB, 120)), ID, task_of("counts", 1), [])
    assert said.cause is SlowCause.SLOW_STORAGE
    assert "storage is slow for it on host, its siblings took 110 ms (median)" in said.sentence
    assert "look at the machine of that subtask on host" in said.advice


def test_a_subtask_with_most_of_the_state_is_skew() -> None:
    said = explain_write(written((1 * MB, 100), (80 * MB, 4000), (2 * MB, 120)), ID, None, [])
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.SKEW, *ID)
    assert "its siblings wrote 1.5 MB (median)" in said.sentence


def test_a_few_bytes_more_are_no_skew() -> None:
    assert explain_write(written((10, 100), (400, 4000)), ID, None, []).cause is SlowCause.SLOW_STORAGE


def test_state_that_grows_is_told_with_its_sizes_and_the_vertex_that_grows_most() -> None:
    before = history([(20 * MB, 1000), (20 * MB, 1000)], [(10 * MB, 500), (10 * MB, 500)])
    said = explain_write(written((40 * MB, 2000), (40 * MB, 2000)), ID, None, before)
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.STATE_GROWTH, *ID)
    assert "state grows, from 20.0 MB to 80.0 MB within 2 min, most of all that of `counts`" in said.sentence
    assert "time to live" in said.advice


def test_growth_elsewhere_is_blamed_there() -> None:
    def sized(counts: int, other: int, id: int) -> CheckpointRecord:
        parts = {
            "counts": [answer(0), answer(2010, async_ms=2000, checkpointed_bytes=counts, state_bytes=counts)],
            "other": [
                answer(900, async_ms=10, checkpointed_bytes=size, state_bytes=size) for size in (other // 4, other)
            ],
        }
        return record_of(parts, id=id, completed_ms=2100)

    said = explain_write(sized(20 * MB, 800 * MB, 9), ID, None, [sized(19 * MB, 100 * MB, 8)])
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.STATE_GROWTH, "other", 1)


def test_growth_while_storage_slows_down_is_slow_storage() -> None:
    before = history([(20 * MB, 100), (20 * MB, 100)])
    said = explain_write(written((40 * MB, 4000), (40 * MB, 4000)), ID, None, before)
    assert said.cause is SlowCause.SLOW_STORAGE


def test_much_state_is_told_as_such() -> None:
    size = 2_000 * MB
    said = explain_write(written((size, 8000), (size, 8000)), ID, None, history([(size, 8000), (size, 8000)]))
    assert (said.cause, said.vertex) == (SlowCause.LARGE_STATE, "counts")
    assert "4.0 GB in all" in said.sentence
    assert "incremental" in said.advice


def test_only_completed_ones_of_the_same_kind_are_compared() -> None:
    savepoint = written((1, 1), id=3, kind=SnapshotKind.SAVEPOINT)
    failed = record_of({"counts": [answer(1)]}, id=4)
    good = [written((1, 1), id=number) for number in range(20, 5, -1)]
    assert comparable(written((1, 1)), [savepoint, failed, *good]) == good[:COMPARED]
    assert comparable(savepoint, [failed, *good, savepoint]) == [savepoint]
