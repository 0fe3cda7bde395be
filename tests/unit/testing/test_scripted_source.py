"""Scripts are read step by step, and fail where they say, once."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, RestoreError, UserCodeError
from snapline.testing import ABORT, AWAIT_CHECKPOINT, ScriptedSource, ThreadCluster
from snapline.testing.scripted_source import CHECKPOINT_TIMEOUT_S, _ScriptReader

SCHEMA = "n BIGINT"


def reader_of(source: sl.Source, position: Any = None) -> sl.SourceReader:
    reader = source.reader(sl.ReaderContext("job", "it", 0, 1))
    reader.add_split(source.splits(1)[0], position)
    return reader


def reading(reader: sl.SourceReader, steps: int) -> list[Any]:
    """Batches as the numbers in them."""
    given = [reader.read() for _ in range(steps)]
    return [item.column("n").to_pylist() if isinstance(item, pa.RecordBatch) else item for item in given]


@pytest.mark.parametrize(
    "step",
    [
        [{"n": 1}, {"n": 2}],
        [(1,), (2,)],
        pa.record_batch({"n": [1, 2]}),
        [pa.record_batch({"n": [1]}), pa.record_batch({"n": [2]})],
        pa.table({"n": pa.chunked_array([[1], [2]])}),
    ],
)
def test_rows_come_in_any_form_each_step_as_one_batch(step: Any) -> None:
    reader = reader_of(ScriptedSource([step, {"n": 3}], SCHEMA))
    assert reading(reader, 4) == [[1, 2], [3], None, None]
    assert reader.positions(1) == []


def test_a_step_may_have_more_rows_than_other_sources_read_at_once_or_none() -> None:
    rows = [{"n": number} for number in range(10_000)]
    reader = reader_of(ScriptedSource([rows, []]))
    assert reading(reader, 3) == [list(range(10_000)), [], None]


def test_the_schema_is_that_of_all_dicts_unless_one_is_given() -> None:
    script: Sequence[Any] = [{"n": None, "s": "a"}, ABORT, [{"n": 1}]]
    assert ScriptedSource(script).schema == pa.schema([("n", pa.int64()), ("s", pa.string())])
    with pytest.raises(ConfigurationError, match="give the schema"):
        ScriptedSource([(1,)])
    with pytest.raises(ConfigurationError, match="step 1 of the script is 'end'"):
        ScriptedSource([{"n": 1}, "end"])
    with pytest.raises(UserCodeError, match="'step 0' gave a row with 'm'"):
        ScriptedSource([{"m": 1}], SCHEMA)


def test_an_abort_raises_once_for_each_source_also_in_other_processes() -> None:
    source = ScriptedSource([{"n": 1}, ABORT, {"n": 2}, ABORT])
    packed = pickle.dumps(source)
    first = reader_of(source)
    assert reading(first, 1) == [[1]]
    ((_, position),) = first.positions(1)
    with pytest.raises(UserCodeError, match="the script of the source 'it' aborts at step 1"):
        first.read()
    second = reader_of(pickle.loads(packed), position)
    assert reading(second, 1) == [[2]]
    with pytest.raises(UserCodeError, match="step 3"):
        second.read()
    assert reading(reader_of(pickle.loads(packed)), 3) == [[1], [2], None]
    with pytest.raises(UserCodeError, match="step 1"):
        reading(reader_of(ScriptedSource([{"n": 1}, ABORT])), 2)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def played(*steps: Any, ends: bool = True) -> tuple[_ScriptReader, Clock]:
    clock = Clock()
    reader = _ScriptReader(steps, "unused", ends=ends, what="the script", clock=clock)
    reader.add_split("script", None)
    return reader, clock


def test_a_wait_takes_its_time_however_often_it_is_read() -> None:
    reader, clock = played(sl.Wait(2.0), pa.record_batch({"n": [1]}))
    assert reading(reader, 1) == [sl.Wait(2.0)]
    clock.now_s = 1.5
    assert reading(reader, 1) == [sl.Wait(0.5)]
    clock.now_s = 2.0
    assert reading(reader, 2) == [[1], None]


def test_the_script_goes_on_when_a_checkpoint_covers_what_came_before() -> None:
    reader, _ = played(pa.record_batch({"n": [1]}), AWAIT_CHECKPOINT, pa.record_batch({"n": [2]}))
    reader.positions(1)
    assert reading(reader, 1) == [[1]]
    reader.checkpoint_completed(1)  # its positions are those before the first row
    assert isinstance(reader.read(), sl.Wait)
    assert reader.positions(1) == [("script", 1)]
    assert isinstance(reader.read(), sl.Wait)
    reader.checkpoint_completed(2)
    assert reading(reader, 2) == [[2], None]


def test_a_checkpoint_that_never_comes_is_complained_about() -> None:
    reader, clock = played(AWAIT_CHECKPOINT)
    assert isinstance(reader.read(), sl.Wait)
    clock.now_s = CHECKPOINT_TIMEOUT_S + 1
    with pytest.raises(UserCodeError, match=r"no checkpoint has completed within 60 s at step 0; give .*interval="):
        reader.read()


def test_a_script_without_an_end_waits_behind_its_last_step() -> None:
    reader, _ = played(pa.record_batch({"n": [1]}), ends=False)
    assert reading(reader, 1) == [[1]]
    assert isinstance(reader.read(), sl.Wait)
    assert reader.positions(1) == [("script", 1)]
    assert not ScriptedSource([{"n": 1}], ends=False).is_bounded


def test_a_split_of_another_source_is_refused() -> None:
    with pytest.raises(RestoreError, match="taken with another source"):
        played()[0].add_split([0, 7], None)


def test_a_job_restarts_from_its_checkpoint_and_counts_every_row_once() -> None:
    script = [
        [{"user": "ann", "time": 1_000}, {"user": "bob", "time": 2_000}],
        AWAIT_CHECKPOINT,
        {"user": "ann", "time": 3_000},
        ABORT,
        {"user": "bob", "time": 11_000},
    ]
    job = sl.Job("counts", restart=sl.FixedDelay(delay="1ms"), checkpoints=sl.Checkpoints(interval="10ms"))
    rows = job.source(ScriptedSource(script), uid="script", watermarks=sl.Watermarks("time"))
    counts = rows.key_by("user").window(sl.Tumbling("10s")).aggregate(n=sl.count(), uid="counts")
    found = counts.collect(ThreadCluster()).select(["user", "n"]).to_pylist()
    assert sorted((row["user"], row["n"]) for row in found) == [("ann", 2), ("bob", 1), ("bob", 1)]
