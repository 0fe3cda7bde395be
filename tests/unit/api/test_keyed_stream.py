"""Keyed streams: nodes of their operators."""

from __future__ import annotations

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.types import Partitioning


class Own(sl.Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)


@pytest.fixture
def job() -> sl.Job:
    return sl.Job("test")


@pytest.fixture
def rows(job: sl.Job) -> sl.Stream:
    return job.source(sl.sources.Rate(rows=1), "rows")


def test_a_keyed_operator_of_ones_own_has_state_unless_said_else(job: sl.Job, rows: sl.Stream) -> None:
    rows.key_by("user").apply(Own(), "keyed", schema=rows.schema)
    rows.apply(Own(), "plain", schema=rows.schema)
    keyed, plain = job.nodes[1:]
    assert (keyed.has_state, keyed.key_columns) == (True, ("user",))
    assert (plain.has_state, plain.key_columns) == (False, ())


def test_aggregates_at_an_interval_are_combined_before_rows_are_sent(job: sl.Job, rows: sl.Stream) -> None:
    rows.key_by("user").aggregate(uid="n", emit_every="1s", n=sl.count(), total=sl.sum("value"))
    combine, aggregate = job.nodes[1:]
    assert [item.partitioning for item in combine.inputs] == [Partitioning.FORWARD]
    assert [(item.node, item.partitioning) for item in aggregate.inputs] == [(combine, Partitioning.HASH)]
    assert aggregate.schema == pa.schema([("user", pa.string()), ("n", pa.int64()), ("total", pa.int64())])


def test_other_aggregates_are_not(job: sl.Job, rows: sl.Stream) -> None:
    rows.key_by("user").aggregate(uid="all", emit_every="1s", values=sl.collect("value"))
    rows.key_by("user").aggregate(uid="n", n=sl.count())
    assert [node.name for node in job.nodes] == ["Rate", "aggregate", "aggregate"]


def test_emit_every_is_a_duration(rows: sl.Stream) -> None:
    with pytest.raises(ConfigurationError, match="aggregate: emit_every='0s': must be longer than nothing"):
        rows.key_by("user").aggregate(uid="a", emit_every="0s", n=sl.count())
