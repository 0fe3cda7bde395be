"""Connected streams: the inputs of an operator with two."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.types import Partitioning


class Own(sl.Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)


def rows(job: sl.Job, uid: str) -> sl.Stream:
    return job.source(sl.sources.Rate(rows=1), uid)


def test_all_parts_of_the_second_stream_are_input_1() -> None:
    job = sl.Job("test")
    one, two, three = (rows(job, uid) for uid in ("one", "two", "three"))
    both = one.key_by("user").connect(two.select("id").union(three.select("id")).broadcast())
    assert [(item.index, item.partitioning) for item in both.inputs] == [
        (0, Partitioning.HASH),
        (1, Partitioning.BROADCAST),
        (1, Partitioning.BROADCAST),
    ]
    assert (both.key_columns, both.other_key_columns) == (("user",), ())
    assert [schema.names for schema in both.schemas] == [["id", "user", "value", "time"], ["id"]]
    both.apply(Own(), "own", schema="id BIGINT")
    node = job.nodes[-1]
    assert [item.index for item in node.inputs] == [0, 1, 1]
    assert (node.key_columns, node.has_state) == (("user",), True)


@pytest.mark.parametrize("other", [5, rows(sl.Job("other"), "rows")])
def test_both_streams_belong_to_one_job(other: Any) -> None:
    with pytest.raises(ConfigurationError, match="give a stream of the same job"):
        rows(sl.Job("test"), "rows").connect(other)
