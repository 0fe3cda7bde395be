"""In-flight data: collected per channel, written in the background, read back as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.errors import DamagedError, EngineError, StorageError
from snapline.protocol.snapshot import ChannelPart, StoredObject
from snapline.state import channel_state
from snapline.state.channel_state import (
    Channel,
    ChannelParts,
    ChannelSide,
    ChannelStates,
    ChannelStateWriter,
    read_channel,
)
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotCancelledError, SnapshotWriter, WriteOptions


def target(
    objects: MemoryObjects | None = None, checkpoint_id: int = 1, *, inline_bytes: int = 0, zstd: bool = False
) -> SnapshotWriter:
    return SnapshotWriter(
        objects or MemoryObjects(),
        f"memory://job/chk-{checkpoint_id}",
        None,
        attempt=1,
        checkpoint_id=checkpoint_id,
        uid="op",
        subtask=0,
        options=WriteOptions(inline_bytes, zstd),
    )


def batch(*numbers: int, **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64()), **columns})


def read(part: ChannelPart, objects: MemoryObjects) -> list[pa.RecordBatch]:
    return list(read_channel(part, SnapshotReader(objects)))


def there_and_back(batches: Sequence[pa.RecordBatch], *, zstd: bool = False) -> list[pa.RecordBatch]:
    objects = MemoryObjects()
    writer = ChannelStateWriter(target(objects, zstd=zstd))
    for one in batches:
        writer.add(Channel(ChannelSide.INPUT, "e", 0, 0), one)
    ((part,), ()) = writer.finish()
    return read(part, objects)


def assert_same(found: Sequence[pa.RecordBatch], expected: Sequence[pa.RecordBatch]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.schema.equals(other.schema, check_metadata=True)
        assert one.to_pylist() == other.to_pylist()
        one.validate(full=True)


# --- one checkpoint --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
def test_every_channel_keeps_its_batches_in_order(inline_bytes: int) -> None:
    objects = MemoryObjects()
    writer = ChannelStateWriter(target(objects, inline_bytes=inline_bytes))
    writer.add(Channel(ChannelSide.INPUT, "e", 0, 1), batch(1))
    writer.add(Channel(ChannelSide.OUTPUT, "f", 1, 0), batch(10))
    writer.add(Channel(ChannelSide.INPUT, "e", 2, 1), batch(2, 3))
    writer.add(Channel(ChannelSide.INPUT, "e", 0, 1), batch(4))
    writer.add(Channel(ChannelSide.OUTPUT, "e", 0, 1), batch(20))
    inputs, outputs = writer.finish()
    assert [(part.edge, part.upstream, part.downstream) for part in inputs] == [("e", 0, 1), ("e", 2, 1)]
    assert [(part.edge, part.upstream, part.downstream) for part in outputs] == [("f", 1, 0), ("e", 0, 1)]
    contents = [[one["n"].to_pylist() for one in read(part, objects)] for part in (*inputs, *outputs)]
    assert contents == [[[1], [4]], [[2, 3]], [[10]], [[20]]]
    assert len(objects.list("memory://job")) == (1 if inline_bytes == 0 else 0)


def test_without_data_nothing_is_written() -> None:
    objects = MemoryObjects()
    assert ChannelStateWriter(target(objects)).finish() == ChannelParts((), ())
    assert objects.list("memory://job") == []


@pytest.mark.parametrize("zstd", [False, True])
def test_batches_come_back_as_they_were(zstd: bool) -> None:
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    others = pa.array(["c", "a", None]).dictionary_encode()
    nested = pa.ListArray.from_arrays([0, 1, 3, 3], pa.array(["x", "y", "x"]).dictionary_encode())
    tagged = batch(1).replace_schema_metadata({"watermark": "5"})
    batches = [
        batch(1, 2, 3),
        batch(),
        batch(4, 5, 6).slice(1, 1),
        batch(1, 2, 3, word=words),
        batch(4, 5, 6, word=others),
        batch(7, 8, 9, word=words),
        batch(1, 2, 3, nested=nested),
        batch(1, 2, 3, nested=pa.ListArray.from_arrays([0, 0, 1, 2], pa.array(["z", "w"]).dictionary_encode())),
        tagged,
        batch(7),
        pa.RecordBatch.from_pydict({"text": pa.array(["x", None], pa.string_view()), "n": pa.array([1, 2], pa.int8())}),
        pa.RecordBatch.from_pydict({}),
    ]
    assert_same(there_and_back(batches, zstd=zstd), batches)


types = st.sampled_from([pa.int64(), pa.string(), pa.bool_(), pa.list_(pa.int16())])
values: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    pa.bool_(): st.booleans(),
    pa.list_(pa.int16()): st.lists(st.integers(-5, 5), max_size=3),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.integers(0, 4))
    columns = {}
    for name in draw(st.sampled_from([["a"], ["a", "b"]])):
        kind = draw(types)
        array = pa.array(draw(st.lists(values[kind] | st.none(), min_size=rows, max_size=rows)), kind)
        encode = draw(st.booleans()) and not pa.types.is_nested(kind)
        columns[name] = array.dictionary_encode() if encode else array
    return pa.RecordBatch.from_pydict(columns)


@settings(max_examples=50)
@given(st.lists(batches(), min_size=1, max_size=6), st.booleans())
def test_any_batches_come_back_as_they_were(given: list[pa.RecordBatch], zstd: bool) -> None:
    assert_same(there_and_back(given, zstd=zstd), given)


def test_compression() -> None:
    sizes = []
    for zstd in (False, True):
        writer = ChannelStateWriter(target(zstd=zstd))
        writer.add(Channel(ChannelSide.INPUT, "e", 0, 0), batch(*[5] * 10_000))
        sizes.append(writer.finish().inputs[0].object.size_bytes)
    assert sizes[1] < sizes[0] / 20


def test_the_amount_is_known_and_limited() -> None:
    writer = ChannelStateWriter(target(), max_bytes=5 * 8)
    writer.add(Channel(ChannelSide.INPUT, "e", 0, 0), batch(1, 2))
    writer.add(Channel(ChannelSide.OUTPUT, "e", 0, 0), batch(1, 2, 3).slice(1))
    assert [writer.collected_bytes(side) for side in ChannelSide] == [16, 16]
    with pytest.raises(StorageError, match=r"checkpoint 1 of op\[0\] has more than 40 bytes.*let barriers align"):
        writer.add(Channel(ChannelSide.OUTPUT, "e", 0, 0), batch(1, 2))
    writer.add(Channel(ChannelSide.OUTPUT, "e", 0, 0), batch(1))
    assert [writer.collected_bytes(side) for side in ChannelSide] == [16, 24]


def test_an_aborted_writer() -> None:
    objects = MemoryObjects()
    writer = ChannelStateWriter(target(objects))
    writer.add(Channel(ChannelSide.INPUT, "e", 0, 0), batch(1))
    writer.abort()
    with pytest.raises(SnapshotCancelledError):
        writer.add(Channel(ChannelSide.INPUT, "e", 0, 0), batch(1))
    with pytest.raises(SnapshotCancelledError):
        writer.finish()
    assert objects.list("memory://job") == []


@pytest.mark.parametrize("checked", [True, False])
def test_damaged_data_is_an_error(checked: bool) -> None:
    objects = MemoryObjects()
    writer = ChannelStateWriter(target(objects))
    writer.add(Channel(ChannelSide.INPUT, "e", 0, 0), batch(1, 2, 3))
    ((part,), _) = writer.finish()
    data = objects.read(part.object.path)
    spoilt = [data[:-1], data[:100], b"", data[:16] + b"\xff" * 16 + data[32:], b"x" * len(data)]
    for stored in spoilt:
        item = part.object if checked else StoredObject(part.object.path, len(stored))
        objects.write(item.path, stored)
        if not checked and not stored:
            continue
        with pytest.raises(DamagedError, match="damaged"):
            read(replace(part, object=item), objects)


# --- all checkpoints of a subtask ------------------------------------------------------------------------------------


class Later(Executor):
    """Runs submitted calls on `run`."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
def states(later: Later) -> ChannelStates:
    return ChannelStates(later, max_bytes=1000)


def failure(future: Future[ChannelParts]) -> BaseException | None:
    assert future.done()
    return future.exception()


def test_writing_begins_when_both_sides_are_finished(states: ChannelStates, later: Later) -> None:
    objects = MemoryObjects()
    result = states.start(1, target(objects))
    states.add_output(1, "f", 0, 0, batch(1))
    assert states.finish_output(1) == 8
    states.add_input(1, "e", 0, 0, batch(2, 3))
    assert later.waiting == []
    assert states.finish_input(1) == 16
    assert not result.done()
    later.run()
    (given,), (overtaken,) = result.result()
    assert [one["n"].to_pylist() for one in read(given, objects)] == [[2, 3]]
    assert [one["n"].to_pylist() for one in read(overtaken, objects)] == [[1]]


def test_checkpoints_do_not_mix(states: ChannelStates, later: Later) -> None:
    objects = MemoryObjects()
    results = {number: states.start(number, target(objects, number)) for number in (1, 2)}
    states.add_input(2, "e", 0, 0, batch(2))
    states.add_input(1, "e", 0, 0, batch(1))
    for number in (2, 1):
        states.finish_input(number)
        states.finish_output(number)
    later.run()
    for number, result in results.items():
        assert [one["n"].to_pylist() for one in read(result.result().inputs[0], objects)] == [[number]]


def test_too_much_data_fails_that_checkpoint_alone(states: ChannelStates, later: Later) -> None:
    results = {number: states.start(number, target(checkpoint_id=number)) for number in (1, 2)}
    for number in (1, 2):
        states.add_input(number, "e", 0, 0, batch(1))
    states.add_input(1, "e", 0, 0, batch(*range(200)))
    error = failure(results[1])
    assert isinstance(error, StorageError)
    assert "raise the limit" in str(error)
    states.add_output(1, "e", 0, 0, batch(1))
    assert states.finish_input(1) == states.finish_output(1) == 0
    assert states.finish_input(2) == 8
    states.finish_output(2)
    later.run()
    assert len(results[2].result().inputs) == 1


def test_a_failed_write_fails_the_future(states: ChannelStates, later: Later) -> None:
    result = states.start(1, target(MemoryObjects(limit_bytes=10)))
    states.add_input(1, "e", 0, 0, batch(1))
    states.finish_input(1)
    states.finish_output(1)
    later.run()
    assert isinstance(failure(result), StorageError)
    states.add_input(1, "e", 0, 0, batch(1))


def test_an_executor_that_is_shut_down() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    states = ChannelStates(executor)
    result = states.start(1, target())
    states.finish_input(1)
    states.finish_output(1)
    assert isinstance(failure(result), StorageError)


def test_a_target_that_was_cancelled_by_its_owner(states: ChannelStates) -> None:
    cancelled = target()
    result = states.start(1, cancelled)
    cancelled.cancel()
    states.add_input(1, "e", 0, 0, batch(1))
    assert isinstance(failure(result), SnapshotCancelledError)


def test_what_comes_for_an_aborted_checkpoint_is_ignored(states: ChannelStates, later: Later) -> None:
    result = states.start(1, target())
    states.add_input(1, "e", 0, 0, batch(1))
    states.abort(1)
    assert isinstance(failure(result), SnapshotCancelledError)
    states.abort(1)
    states.add_input(1, "e", 0, 0, batch(1))
    states.add_output(1, "e", 0, 0, batch(1))
    assert states.finish_input(1) == states.finish_output(1) == 0
    assert later.waiting == []


def test_a_checkpoint_that_was_aborted_before_it_began(states: ChannelStates, later: Later) -> None:
    states.abort(2)
    wanted, unwanted = states.start(1, target()), target(checkpoint_id=2)
    assert isinstance(failure(states.start(2, unwanted)), SnapshotCancelledError)
    with pytest.raises(SnapshotCancelledError):
        unwanted.check()
    states.add_input(2, "e", 0, 0, batch(1))
    assert not wanted.done()


def test_an_aborted_checkpoint_ends_only_when_nobody_writes_for_it(states: ChannelStates, later: Later) -> None:
    objects = MemoryObjects()
    result = states.start(1, target(objects))
    states.add_input(1, "e", 0, 0, batch(1))
    states.finish_input(1)
    states.finish_output(1)
    states.abort(1)
    assert not result.done()
    later.run()
    assert isinstance(failure(result), SnapshotCancelledError)
    assert objects.list("memory://job") == []


def test_aborting_in_the_middle_of_the_last_write(later: Later) -> None:
    class Aborting(MemoryObjects):
        def write(self, path: str, data: Any) -> None:
            super().write(path, data)
            aborting.abort(1)

    objects = Aborting()
    aborting = ChannelStates(later)
    owned = target(objects)
    result = aborting.start(1, owned)
    aborting.add_input(1, "e", 0, 0, batch(1))
    aborting.finish_input(1)
    aborting.finish_output(1)
    later.run()
    assert isinstance(failure(result), SnapshotCancelledError)
    owned.discard()
    assert objects.list("memory://job") == []


def test_aborting_what_is_written_changes_nothing(states: ChannelStates, later: Later) -> None:
    result = states.start(1, target())
    states.finish_input(1)
    states.finish_output(1)
    later.run()
    states.abort(1)
    assert result.result() == ChannelParts((), ())


def test_what_breaks_the_order_of_calls_is_an_error(states: ChannelStates, later: Later) -> None:
    uses: list[Callable[[], object]] = [
        lambda: states.add_input(1, "e", 0, 0, batch(1)),
        lambda: states.add_output(1, "e", 0, 0, batch(1)),
        lambda: states.finish_input(1),
        lambda: states.finish_output(1),
    ]
    for use in uses:
        with pytest.raises(EngineError, match="checkpoint 1, which was not started"):
            use()
    states.start(1, target())
    with pytest.raises(EngineError, match="started twice"):
        states.start(1, target())
    states.finish_input(1)
    for use in (uses[0], uses[2]):
        with pytest.raises(EngineError, match="the input side of checkpoint 1 is finished"):
            use()
    states.finish_output(1)
    for use in uses:
        with pytest.raises(EngineError, match="finished"):
            use()
    later.run()
    for use in uses:
        with pytest.raises(EngineError, match="already written"):
            use()


def test_a_bounded_number_of_checkpoints_is_known(
    states: ChannelStates, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_state, "MAX_CHECKPOINTS", 3)
    results = [states.start(number, target(checkpoint_id=number)) for number in (1, 2, 3)]
    with pytest.raises(EngineError, match="3 checkpoints at once"):
        states.start(4, target(checkpoint_id=4))
    states.abort(2)
    results.append(states.start(4, target(checkpoint_id=4)))
    for number in range(10, 20):
        states.abort(number)
    for number in (2, 5, 10, 16, 19):
        states.add_input(number, "e", 0, 0, batch(1))
    for number in (1, 3, 4):
        states.add_input(number, "e", 0, 0, batch(1))
        states.finish_input(number)
        states.finish_output(number)
    later.run()
    assert [failure(result) is None for result in results] == [True, False, True, True]


def test_callbacks_of_a_failed_checkpoint_may_call_back(states: ChannelStates) -> None:
    calls: list[int] = []
    result = states.start(1, target())

    def on_done(_: Future[ChannelParts]) -> None:
        states.abort(1)
        states.start(2, target(checkpoint_id=2))
        calls.append(2)

    result.add_done_callback(on_done)
    states.add_input(1, "e", 0, 0, batch(*range(200)))
    assert calls == [2]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


def test_many_threads(pool: ThreadPoolExecutor) -> None:
    objects = MemoryObjects()
    states = ChannelStates(pool)
    numbers = range(1, 21)
    results = {number: states.start(number, target(objects, number)) for number in numbers}
    barrier = threading.Barrier(3)

    def side(add: Callable[..., None], finish: Callable[[int], int]) -> None:
        barrier.wait()
        for number in numbers:
            for index in range(10):
                add(number, "e", index % 3, 0, batch(index))
            finish(number)

    def abort() -> None:
        barrier.wait()
        for number in numbers:
            if number % 3 == 0:
                states.abort(number)

    threads = [
        threading.Thread(target=side, args=(states.add_input, states.finish_input)),
        threading.Thread(target=side, args=(states.add_output, states.finish_output)),
        threading.Thread(target=abort),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, result in results.items():
        error = result.exception(timeout=30)
        assert error is None or (number % 3 == 0 and isinstance(error, SnapshotCancelledError))
        if error is None:
            inputs, outputs = result.result()
            assert sum(len(read(part, objects)) for part in (*inputs, *outputs)) == 20
