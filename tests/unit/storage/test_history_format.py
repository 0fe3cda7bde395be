"""The file of a job's history: whole, small, and never misread."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from snapline.config import Checkpoints, ExponentialDelay, FixedDelay, Monitoring, Secret
from snapline.devtools.kit.sample_views import sample_view
from snapline.errors import DamagedError
from snapline.protocol.statistics.job_past import JobPast, bounded
from snapline.protocol.statistics.packed_subtasks import PackedSubtasks
from snapline.storage import history_format
from snapline.storage.history_format import NewerHistoryError, decode, encode
from snapline.types import JobStatus, SubtaskId

NAME = "history-1-t.json.gz"


def past(checkpoints: int = 15) -> JobPast:
    settings = Checkpoints(interval="1s", storage="/data", zookeeper="z:1", zookeeper_auth=Secret.env("AUTH"))
    view = sample_view(checkpoints=checkpoints, settings=settings, monitoring=Monitoring(token="t0ken"))
    return JobPast(replace(view, restart=FixedDelay(attempts=7)), {"state_bytes": 123}, ("history-0-x.json.gz",))


def changed(data: bytes, **values: object) -> bytes:
    return gzip.compress(json.dumps({**json.loads(gzip.decompress(data)), **values}).encode())


def test_a_history_comes_back_as_it_was() -> None:
    before = past()
    after = decode(encode(before), NAME)
    shown = replace(after.view, is_live=True, monitoring=before.view.monitoring)
    assert shown == before.view
    assert not after.view.is_live
    assert (after.totals, after.absorbed) == (before.totals, before.absorbed)
    assert all(
        isinstance(part.subtasks, PackedSubtasks)
        for record in after.view.statistics.history
        for part in record.vertices
    )
    assert isinstance(after.view.events, tuple)


def test_it_can_be_read_with_zcat_and_holds_no_secret() -> None:
    text = gzip.decompress(encode(past())).decode()
    assert json.loads(text)["format"] == "snapline-history"
    assert "t0ken" not in text
    assert "env:AUTH" in text


def test_the_same_history_gives_the_same_bytes() -> None:
    assert encode(past()) == encode(past())


def test_a_thousand_checkpoints_fit_into_few_bytes() -> None:
    data = encode(bounded(past(checkpoints=1500), 1000))
    assert len(data) < 300_000
    assert len(decode(data, NAME).view.statistics.history) == 1000


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -10, -1])
def test_a_history_that_is_cut_off_is_damaged(cut: int) -> None:
    with pytest.raises(DamagedError, match=NAME):
        decode(encode(past())[:cut], NAME)


def test_a_flipped_bit_is_found() -> None:
    data = bytearray(encode(past()))
    for place in range(20, len(data), len(data) // 50):
        data[place] ^= 4
        with pytest.raises(DamagedError):
            decode(bytes(data), NAME)
        data[place] ^= 4
    decode(bytes(data), NAME)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not gzip",
        gzip.compress(b"not json"),
        gzip.compress(b"[]"),
        gzip.compress(b'{"format": "snapline-history", "version": 1}'),
        changed(encode(past()), format="something-else"),
        changed(encode(past()), view={}),
        changed(encode(past()), totals="many"),
    ],
    ids=["empty", "no gzip", "no json", "a list", "no content", "another format", "no view", "wrong totals"],
)
def test_what_is_no_history_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedError):
        decode(data, NAME)


def test_a_history_of_a_later_version_is_told_apart() -> None:
    with pytest.raises(NewerHistoryError, match="format 2"):
        decode(changed(encode(past()), version=2), NAME)


def test_what_is_not_known_is_ignored_and_what_is_missing_has_its_default() -> None:
    stored = json.loads(gzip.decompress(encode(past())))
    stored["view"]["of_the_future"] = {"a": 1}
    stored["view"]["statistics"]["of_the_future"] = 1
    for name in ("health", "interval_ms", "memory_bytes", "monitoring", "restart"):
        del stored["view"][name]
    after = decode(gzip.compress(json.dumps(stored).encode()), NAME).view
    assert after.statistics == past().view.statistics
    assert (after.interval_ms, after.memory_bytes) == (None, {})


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_format, "MAX_HISTORY_BYTES", 1000)
    with pytest.raises(DamagedError, match="larger than 1000"):
        decode(gzip.compress(b" " * 10_000), NAME)


def test_a_history_of_the_first_version_stays_readable() -> None:
    kept = decode((Path(__file__).parents[2] / "golden" / "history-v1.json.gz").read_bytes(), "history-v1")
    view, statistics = kept.view, kept.view.statistics
    assert (view.job_id, view.name, view.status, view.attempt) == ("clicks", "job clicks", JobStatus.RUNNING, 2)
    assert [record.id for record in statistics.history] == list(range(30, 5, -1))
    assert (statistics.counts.total, statistics.counts.completed, statistics.counts.failed) == (30, 28, 1)
    newest, done = statistics.history[0], statistics.history[1]
    assert (newest.status.value, done.status.value, done.end_to_end_duration_ms) == ("IN_PROGRESS", "COMPLETED", 102)
    part = done.vertex("per-user")
    assert part is not None
    assert [(it.index, it.end_to_end_duration_ms, it.commit_ms) for it in part.subtasks] == [
        (0, 100, 5),
        (1, 101, 6),
        (2, 102, 7),
    ]
    assert part.summary().alignment_ms.max == 6
    assert statistics.history[-1].vertices[0].subtasks == ()
    assert statistics.latest.savepoint is not None
    assert statistics.latest.restored is not None
    assert statistics.summary.state_bytes.count == 28
    assert (view.failures[0].cause, view.failures[0].subtask) == ("ValueError: no", SubtaskId("clicks", 0))
    assert [vertex.id for vertex in view.plan.vertices] == ["clicks", "per-user", "out"]
    assert view.subtasks[0].metrics is not None
    assert (view.checkpoints.interval_ms, view.checkpoints.zookeeper_auth) == (1000, Secret.env("AUTH"))
    assert (view.monitoring.history, view.restart) == (25, ExponentialDelay())
    assert (kept.totals["end_to_end_duration_ms"], kept.absorbed) == (2856, ("history-1-a.json.gz",))
