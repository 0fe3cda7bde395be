"""Whatever happens to checkpoints, the statistics agree with a plain account; restart policies keep their bounds."""

from __future__ import annotations

import pickle
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from snapline.config import ExponentialDelay, FailureRate, FixedDelay
from snapline.protocol.job.restart_policy import RestartPolicy
from snapline.protocol.statistics.checkpoint_records import CheckpointStatus, StatisticsSnapshot, SubtaskMetrics
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.protocol.statistics.summary import Summary, percentile
from snapline.types import NO_CHECKPOINT, FailureReason, SnapshotKind

SIZES = st.integers(-1, 1_000)
JITTER = st.floats(-1, 1)
GAPS = st.lists(st.integers(0, 200_000), min_size=1, max_size=30)
VERTICES = {"a": 2, "b": 1}


class Statistics(RuleBasedStateMachine):
    """Facts in any order, late and wrong ones included, against an account that keeps everything for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.history = 0
        self.window = 1
        self.statistics = CheckpointStatistics()
        self.created: list[int] = []
        self.kinds: dict[int, SnapshotKind] = {}
        self.status: dict[int, CheckpointStatus] = {}
        self.acks: dict[int, dict[tuple[str, int], int]] = {}
        self.not_started = 0
        self.restored = 0
        self.completed_sizes: list[int] = []
        self.discarded: set[int] = set()
        self.seen: list[tuple[StatisticsSnapshot, bytes]] = []

    @initialize(history=st.integers(0, 4), window=st.integers(1, 3))
    def start(self, history: int, window: int) -> None:
        self.history = history
        self.window = window
        self.statistics = CheckpointStatistics(history=history, percentile_window=window)

    @rule(kind=st.sampled_from(SnapshotKind))
    def create(self, kind: SnapshotKind) -> None:
        checkpoint_id = len(self.created) + 1
        self.statistics.created(checkpoint_id, kind, None, 1_000, VERTICES, unaligned=False)
        self.created.append(checkpoint_id)
        self.kinds[checkpoint_id] = kind
        self.status[checkpoint_id] = CheckpointStatus.IN_PROGRESS
        self.acks[checkpoint_id] = {}

    @rule(back=st.integers(0, 4), vertex=st.sampled_from("abc"), index=st.integers(-1, 2), size=SIZES)
    def acknowledge(self, back: int, vertex: str, index: int, size: int) -> None:
        checkpoint_id = len(self.created) - back
        expected = (
            self.status.get(checkpoint_id) is CheckpointStatus.IN_PROGRESS
            and 0 <= index < VERTICES.get(vertex, 0)
            and (vertex, index) not in self.acks[checkpoint_id]
        )
        metrics = SubtaskMetrics(checkpointed_bytes=size)
        assert self.statistics.acknowledged(checkpoint_id, vertex, index, 1_500, metrics) == expected
        if expected:
            self.acks[checkpoint_id][vertex, index] = max(size, 0)

    @rule(back=st.integers(0, 4))
    def complete(self, back: int) -> None:
        checkpoint_id = len(self.created) - back
        expected = self.status.get(checkpoint_id) is CheckpointStatus.IN_PROGRESS
        assert self.statistics.completed(checkpoint_id, 2_000, None) == expected
        if expected:
            self.status[checkpoint_id] = CheckpointStatus.COMPLETED
            self.completed_sizes.append(sum(self.acks[checkpoint_id].values()))

    @rule(back=st.integers(0, 4))
    def fail(self, back: int) -> None:
        checkpoint_id = len(self.created) - back
        expected = self.status.get(checkpoint_id) is CheckpointStatus.IN_PROGRESS
        assert self.statistics.failed(checkpoint_id, 2_000, FailureReason.CHECKPOINT_DECLINED) == expected
        if expected:
            self.status[checkpoint_id] = CheckpointStatus.FAILED

    @rule()
    def fail_before_creation(self) -> None:
        assert self.statistics.failed(None, 2_000, FailureReason.IO_EXCEPTION)
        self.not_started += 1

    @rule(back=st.integers(0, 6))
    def discard(self, back: int) -> None:
        checkpoint_id = len(self.created) - back
        snapshot = self.statistics.snapshot()
        expected = (
            self.status.get(checkpoint_id) is CheckpointStatus.COMPLETED
            and checkpoint_id not in self.discarded
            and snapshot.find(checkpoint_id) is not None
        )
        assert self.statistics.discarded(checkpoint_id) == expected
        if expected:
            self.discarded.add(checkpoint_id)

    @rule()
    def restore(self) -> None:
        self.statistics.restored(len(self.created), 2_000, is_savepoint=False, external_path=None)
        self.restored += 1

    @rule()
    def look(self) -> None:
        snapshot = self.statistics.snapshot()
        assert self.statistics.snapshot() is snapshot
        self.seen = [*self.seen[-4:], (snapshot, pickle.dumps(snapshot))]

    def _newest(self, status: CheckpointStatus, *, savepoint: bool | None) -> int | None:
        return max(
            (
                checkpoint_id
                for checkpoint_id in self.created
                if self.status[checkpoint_id] is status and savepoint in (None, self.kinds[checkpoint_id].is_savepoint)
            ),
            default=None,
        )

    @invariant()
    def counts_agree_with_the_account(self) -> None:
        counts = self.statistics.snapshot().counts
        of = list(self.status.values()).count
        assert counts.total == counts.in_progress + counts.completed + counts.failed
        assert counts.in_progress == of(CheckpointStatus.IN_PROGRESS)
        assert counts.completed == of(CheckpointStatus.COMPLETED)
        assert counts.failed == of(CheckpointStatus.FAILED) + self.not_started
        assert counts.restored == self.restored

    @invariant()
    def history_holds_the_newest(self) -> None:
        history = self.statistics.snapshot().history
        assert [record.id for record in history] == self.created[::-1][: self.history]
        for record in history:
            assert record.status is self.status[record.id]
            assert record.totals.acknowledged == len(self.acks[record.id])
            assert record.totals.checkpointed_bytes == sum(self.acks[record.id].values())
            assert record.totals.subtasks == sum(len(vertex.subtasks) for vertex in record.vertices) == 3
            assert record.totals.acknowledged == sum(vertex.totals.acknowledged for vertex in record.vertices)
            acknowledged = {
                (vertex.vertex, subtask.index)
                for vertex in record.vertices
                for subtask in vertex.subtasks
                if subtask.is_acknowledged
            }
            assert acknowledged == set(self.acks[record.id])
            assert record.completion is None or record.completion.discarded == (record.id in self.discarded)

    @invariant()
    def latest_are_the_newest_of_their_sort(self) -> None:
        latest = self.statistics.snapshot().latest
        for record, status, savepoint in (
            (latest.completed, CheckpointStatus.COMPLETED, False),
            (latest.savepoint, CheckpointStatus.COMPLETED, True),
        ):
            assert (None if record is None else record.id) == self._newest(status, savepoint=savepoint)
        failed_id = None if latest.failed is None else latest.failed.id
        if self.not_started:
            # The last failure counts, also of a checkpoint that never began.
            assert failed_id == NO_CHECKPOINT or self.status[failed_id or 0] is CheckpointStatus.FAILED
        else:
            assert failed_id == self._newest(CheckpointStatus.FAILED, savepoint=None)

    @invariant()
    def summary_is_over_what_completed(self) -> None:
        summary = self.statistics.snapshot().summary.checkpointed_bytes
        assert summary.count == len(self.completed_sizes)
        if self.completed_sizes:
            assert (summary.min, summary.max) == (min(self.completed_sizes), max(self.completed_sizes))
            assert summary.avg == sum(self.completed_sizes) // len(self.completed_sizes)
            assert summary.p50 == Summary.of(self.completed_sizes[-self.window :]).p50

    @invariant()
    def old_snapshots_never_change(self) -> None:
        for snapshot, before in self.seen:
            assert snapshot == pickle.loads(before)


TestStatistics = pytest.mark.slow(Statistics.TestCase)


@given(st.lists(st.integers(0, 10**12), min_size=1), st.lists(st.integers(1, 999), min_size=2))
def test_percentiles_rise_and_stay_within_the_values(values: list[int], permilles: list[int]) -> None:
    ordered = sorted(values)
    found = [percentile(ordered, permille) for permille in sorted(permilles)]
    assert found == sorted(found)
    assert all(ordered[0] <= value <= ordered[-1] for value in found)


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_the_summary_does_not_depend_on_the_order(values: list[int]) -> None:
    summary = Summary.of(values)
    assert summary == Summary.of(reversed(values))
    assert summary.min <= summary.p50 <= summary.p90 <= summary.p95 <= summary.p99 <= summary.p999 <= summary.max
    assert summary.avg <= mean(values) < summary.avg + 1


@given(GAPS, st.integers(0, 10), JITTER)
def test_fixed_delay_restarts_exactly_as_often_as_allowed(gaps: list[int], attempts: int, jitter: float) -> None:
    policy = RestartPolicy.for_config(FixedDelay(attempts=attempts))
    decided = [policy.failed(now_ms, jitter).restart for now_ms in _times(gaps)]
    assert decided == [number < attempts for number in range(len(gaps))]


@given(GAPS, st.integers(1, 5), st.integers(1, 100_000))
def test_failure_rate_looks_back_one_interval(gaps: list[int], allowed: int, interval_ms: int) -> None:
    policy = RestartPolicy.for_config(FailureRate(max_failures_per_interval=allowed, interval=f"{interval_ms}ms"))
    times = _times(gaps)
    for position, now_ms in enumerate(times):
        recent = sum(now_ms - earlier <= interval_ms for earlier in times[: position + 1])
        assert policy.failed(now_ms, 0.0).restart == (recent <= allowed)


@given(
    st.lists(st.tuples(st.integers(-5_000, 200_000), JITTER), min_size=1, max_size=60),
    st.integers(1, 5_000),
    st.integers(0, 100_000),
    st.floats(1.01, 100),
    st.floats(0, 1),
    st.integers(1, 100_000),
    st.none() | st.integers(1, 5),
)
def test_exponential_delay_keeps_its_bounds(
    failures: list[tuple[int, float]],
    initial_ms: int,
    more_ms: int,
    multiplier: float,
    jitter_factor: float,
    reset_ms: int,
    limit: int | None,
) -> None:
    config = ExponentialDelay(
        initial_backoff=f"{initial_ms}ms",
        max_backoff=f"{initial_ms + more_ms}ms",
        multiplier=multiplier,
        jitter=jitter_factor,
        reset_threshold=f"{reset_ms}ms",
        attempts_before_reset=limit,
    )
    policy = RestartPolicy.for_config(config)
    clock_ms = now_ms = 0
    planned_ms: int | None = None
    attempts = 0
    for gap_ms, jitter in failures:
        clock_ms += gap_ms
        now_ms = max(now_ms, clock_ms) if planned_ms is not None else clock_ms
        decision = policy.failed(clock_ms, jitter)
        assert decision.merged == (planned_ms is not None and now_ms <= planned_ms)
        if not decision.merged:
            attempts = 1 if planned_ms is None or now_ms - planned_ms >= reset_ms else attempts + 1
        assert decision.restart == (limit is None or attempts <= limit)
        if not decision.restart:
            assert decision.delay_ms == 0
            return
        if decision.merged:
            assert planned_ms is not None
            assert now_ms + decision.delay_ms == planned_ms
        else:
            assert initial_ms <= decision.delay_ms <= initial_ms + more_ms
            if attempts == 1 and jitter <= 0:
                assert decision.delay_ms == initial_ms
            planned_ms = now_ms + decision.delay_ms


@given(st.integers(1, 400))
def test_exponential_delays_never_shrink_without_jitter(failures: int) -> None:
    policy = RestartPolicy.for_config(ExponentialDelay(jitter=0))
    delays = []
    now_ms = 0
    for _ in range(failures):
        delays.append(policy.failed(now_ms, 0.0).delay_ms)
        now_ms += delays[-1] + 1
    assert delays == sorted(delays)
    assert delays[0] == 1_000
    assert delays[-1] <= 60_000


def _times(gaps: list[int]) -> list[int]:
    return [sum(gaps[: position + 1]) for position in range(len(gaps))]
