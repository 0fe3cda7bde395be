from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.connectors.kafka import kafka_writers
from snapline.contracts.sink import CommitResult, Committable, Permit, SinkContext
from snapline.errors import RestoreError, UserCodeError

ROWS = pa.record_batch({"x": pa.array(range(100))})


def writer(**settings: Any) -> kafka_writers.ExactlyOnceWriter:
    made = sl.sinks.Kafka("localhost:1", "t", **settings).writer(SinkContext("job", "out", 0, 1, 1, "line"))
    assert isinstance(made, kafka_writers.ExactlyOnceWriter)
    return made


def test_without_rows_nothing_is_prepared() -> None:
    assert writer().prepare(1) == ()


def test_rows_are_kept_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_writers, "CHUNK_BYTES", 2000)
    made = writer()
    for _ in range(5):
        made.write(ROWS)
    (payload,) = made.prepare(1)
    assert payload["topic"] == "t"
    assert payload["commit_topic"] == "snapline-commits"
    assert len(payload["chunks"]) > 1
    assert made.prepare(2) == ()


def test_a_message_that_is_too_large() -> None:
    made = writer(config={"message.max.bytes": 1100})
    with pytest.raises(UserCodeError, match=r"a message has 1008 bytes, too many for message\.max\.bytes=1100"):
        made.write(pa.record_batch({"x": ["y" * 1000]}))


def test_more_than_fits_between_checkpoints() -> None:
    made = writer(max_size="5kb")
    made.write(ROWS)
    made.prepare(1)
    made.write(ROWS)
    many = pa.Table.from_batches([ROWS] * 10).combine_chunks().to_batches()[0]
    with pytest.raises(UserCodeError, match=r"Checkpoints\(interval=\.\.\.\) shorter, or set max_size= higher"):
        made.write(many)


def test_what_another_sink_has_prepared() -> None:
    with pytest.raises(RestoreError, match="holds no messages that a Kafka sink has prepared"):
        writer().commit(Committable("line/out/0/1/1/0", 1, {"pending": "file"}), Permit(1, 1))


def test_writing_waits_for_a_commit_if_another_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_writers, "CHUNK_BYTES", 1)
    monkeypatch.setattr(kafka_writers, "WAITING_BYTES", 1)
    started, may_end, written = threading.Event(), threading.Event(), threading.Event()
    made = writer()

    def attempts(*arguments: object) -> CommitResult:
        started.set()
        assert may_end.wait(30)
        return CommitResult.COMMITTED

    monkeypatch.setattr(made, "_attempts", attempts)

    def prepared(checkpoint: int) -> Committable:
        made.write(ROWS)
        return Committable(f"line/out/0/1/{checkpoint}/0", checkpoint, made.prepare(checkpoint)[0])

    def write() -> None:
        made.write(ROWS)
        written.set()

    first = prepared(1)
    commit = threading.Thread(target=made.commit, args=(first, Permit(1, 1)))
    commit.start()
    assert started.wait(30)
    prepared(2)  # nothing waits yet: the first one is under way
    writing = threading.Thread(target=write)
    writing.start()
    assert not written.wait(0.1)
    may_end.set()
    assert written.wait(30)
    commit.join()
    writing.join()
    # Nothing is under way now, and nothing to wait for.
    prepared(3)
    made.close()
