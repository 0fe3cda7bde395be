"""Times of columns in any unit, and the watermark that checkpoints keep."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.operators.event_time import SavedWatermark, newest_time_ms, per_second, ticks_per_ms, times
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot, SubtaskState
from snapline.state.operator_state import OperatorStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.testing.operator_harness import OperatorHarness
from snapline.types import MAX_WATERMARK, SnapshotKind, SubtaskId


def stamps(unit: str, *numbers: int | None) -> pa.Array:
    return pa.array(numbers, pa.int64()).view(pa.timestamp(unit))


def test_units_have_a_resolution() -> None:
    kinds = [pa.int32(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))]
    assert list(map(per_second, kinds)) == [1000, 1, 1000, 10**6, 10**9]
    assert list(map(ticks_per_ms, kinds)) == [1, 1, 1, 1000, 10**6]


@pytest.mark.parametrize(
    ("column", "ticks", "expected"),
    [
        (pa.array([-5, 5], pa.int16()), 1, [-5, 5]),
        (stamps("s", -5, 5), 1, [-5000, 5000]),
        (stamps("us", -1, 1999), 1, [-1, 1]),
        (stamps("ns", -1, 1_999_999), 1, [-1, 1]),
        (stamps("ms", -5, 5), 1000, [-5000, 5000]),
        (stamps("ns", -1, 1999), 1000, [-1, 1]),
        (pa.array([], pa.int64()), 1, []),
    ],
)
def test_times_are_scaled_and_rounded_down(column: pa.Array, ticks: int, expected: list[int]) -> None:
    assert times(column, "t", "it", ticks).tolist() == expected


@pytest.mark.parametrize(
    ("column", "complaint"),
    [
        (stamps("ms", 1, None), "join 'it': the time column 't' has nulls; filter such rows out"),
        (stamps("s", 1 << 60), "join 'it': the time column 't' has times out of range: overflow"),
        (pa.array([1 << 63], pa.uint64()), "the time column 't' has times out of range"),
    ],
)
def test_nulls_and_times_out_of_range_name_the_column(column: pa.Array, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        times(column, "t", "join 'it'")


def test_the_newest_time_in_milliseconds() -> None:
    assert newest_time_ms(pa.array([3, None, 7], pa.int32())) == 7
    assert newest_time_ms(stamps("s", 3, None, -7)) == 3000
    assert newest_time_ms(stamps("us", -1)) == -1
    assert newest_time_ms(stamps("ns", None)) is None


def test_the_saved_watermark_never_goes_back() -> None:
    harness = OperatorHarness(None)  # type: ignore[arg-type]  # only its context is used
    watermark = SavedWatermark(harness.context)
    assert (watermark.ms, harness.states.watermark_ms) == (-MAX_WATERMARK, None)
    for timestamp_ms in (50, 40):
        watermark.advance(timestamp_ms)
    assert (watermark.ms, harness.states.watermark_ms) == (50, 50)


def test_the_saved_watermark_goes_on_from_the_restored_one() -> None:
    harness = OperatorHarness(None)  # type: ignore[arg-type]  # only its context is used
    harness.states.watermark_ms = 70
    watermark = SavedWatermark(harness.context)
    watermark.advance(60)
    assert (watermark.ms, harness.states.watermark_ms) == (70, 70)


@pytest.mark.parametrize(("older", "restored_ms"), [([70, 30, 50], 30), ([70, -MAX_WATERMARK], None), ([], None)])
def test_checkpoints_of_format_version_1_kept_it_in_a_union_list(older: list[int], restored_ms: int | None) -> None:
    old = OperatorStates("it", 0)
    old.union_list_state("watermark", int).extend(older)
    objects = MemoryObjects()
    target = SnapshotWriter(objects, "/chk-1", None, attempt=1, checkpoint_id=1, uid="it", subtask=0)
    kept = OperatorState("it", 1, 128, {0: SubtaskState(operator=old.snapshot().write(target))})
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, "/chk-1", {"it": kept})
    plan = plan_restore(snapshot, [RestoreVertex("it", 1, ("it",))], [])
    harness = OperatorHarness(None)  # type: ignore[arg-type]  # only its context is used
    harness.states.restore(plan.subtasks[SubtaskId("it", 0)]["it"], SnapshotReader(objects))
    SavedWatermark(harness.context, older_list="watermark")
    assert harness.states.watermark_ms == restored_ms
    assert harness.states.operator.snapshot().write(target) == (), "the list is not carried on"
