"""The logical graph as a whole: its order, uids and parallelism, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.api.graph_nodes import Input, Node
from snapline.errors import ConfigurationError, EngineError
from snapline.graph.logical_graph import check_ends, in_order, parallelisms, uids

NONE: Any = None


class Own(sl.Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)


def rate(job: sl.Job, uid: str = "rate", **options: Any) -> sl.Stream:
    return job.source(sl.sources.Rate(rows=10), uid, **options)


def files(stream: sl.Stream, uid: str = "out", **options: Any) -> None:
    stream.sink(sl.sinks.Files("out"), uid, **options)


def test_a_job_needs_a_source_and_a_sink() -> None:
    job = sl.Job("x")
    with pytest.raises(ConfigurationError, match="has no source"):
        check_ends(job.nodes)
    rate(job)
    with pytest.raises(ConfigurationError, match="has no sink"):
        check_ends(job.nodes)
    files(rate(job, "more"))
    check_ends(job.nodes)


@pytest.mark.parametrize(
    "add",
    [
        lambda job: files(rate(job), NONE),
        lambda job: files(rate(job, NONE)),
        lambda job: files(rate(job).key_by("user").aggregate(n=sl.count())),
        lambda job: files(rate(job).apply(Own(), schema=rate(job, "b").schema, has_state=True)),
    ],
)
def test_what_has_state_needs_a_uid(add: Any) -> None:
    job = sl.Job("x")
    add(job)
    with pytest.raises(ConfigurationError, match=r"needs a uid, .* give one, for example uid="):
        uids(job.nodes)


def test_a_uid_belongs_to_one_operator() -> None:
    job = sl.Job("x")
    files(rate(job, "same"), "same")
    with pytest.raises(ConfigurationError, match="'same' is used 2 times"):
        uids(job.nodes)


@pytest.mark.parametrize("uid", ["", "a/b", "..", "a->b", "x" * 129, "a b", 5])
def test_a_uid_is_a_plain_name(uid: Any) -> None:
    job = sl.Job("x")
    files(rate(job), uid)
    with pytest.raises(ConfigurationError, match="cannot be a uid"):
        uids(job.nodes)


@pytest.mark.parametrize(
    ("options", "sink_options", "complaint"),
    [
        ({"parallelism": 0}, {}, "parallelism=0: use a whole number from 1 to 32768"),
        ({"parallelism": True}, {}, "parallelism=True"),
        ({"parallelism": 9, "max_parallelism": 8}, {}, "parallelism=9: .* from 1 to 8, the job's max_parallelism"),
        ({"max_parallelism": 0}, {}, "max_parallelism=0"),
        ({"max_parallelism": 40000}, {}, "max_parallelism=40000: use a whole number from 1 to 32768"),
        ({"max_parallelism": 8}, {"parallelism": 9}, "parallelism=9 of Files 'out'"),
        ({}, {"parallelism": 1.5}, "parallelism=1.5 of Files 'out'"),
    ],
)
def test_parallelism_has_bounds(options: Any, sink_options: Any, complaint: str) -> None:
    job = sl.Job("x", **options)
    files(rate(job), **sink_options)
    with pytest.raises(ConfigurationError, match=complaint):
        parallelisms(job, job.nodes)


def test_a_graph_that_leads_outside_or_in_circles_is_a_defect() -> None:
    job = sl.Job("x")
    files(rate(job))
    source, sink = job.nodes
    outside = rate(sl.Job("y"), "z")._inputs
    job._nodes[:] = [source, replace(sink, inputs=outside)]
    with pytest.raises(EngineError, match="has the input Rate 'z', which is not in the job"):
        in_order(job.nodes)
    one = Node("one", Own(), None, (Input(source),), source.schema)
    two = Node("two", Own(), None, (Input(one),), source.schema)
    object.__setattr__(one, "inputs", (Input(two),))
    job._nodes[:] = [source, one, two, sink]
    with pytest.raises(EngineError, match="cycle in the dataflow between one, two"):
        in_order(job.nodes)
