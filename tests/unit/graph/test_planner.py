"""From a job to its plan: what is chained, how everything is named, and what is refused."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.api.graph_nodes import Input, Node
from snapline.errors import ConfigurationError
from snapline.graph.execution_plan import ExecutionPlan
from snapline.graph.planner import make_spec, plan
from snapline.graph.shipment import unpack
from snapline.operators.aggregates.running_aggregates import RunningAggregates
from snapline.operators.projection import FilterExpression
from snapline.operators.sink_operator import SinkOperator
from snapline.operators.source_head import SourceHead
from snapline.types import Partitioning

P = Partitioning


class Own(sl.Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)


class Hook(sl.MasterHook):
    def __init__(self, name: str) -> None:
        self.name = name

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        return None

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        return None


def rate(job: sl.Job, uid: str = "rate", **options: Any) -> sl.Stream:
    return job.source(sl.sources.Rate(rows=10), uid, **options)


def files(stream: sl.Stream, uid: str = "out", **options: Any) -> None:
    stream.sink(sl.sinks.Files("out"), uid, **options)


def chains(made: ExecutionPlan) -> list[list[str]]:
    return [[operator.uid for operator in vertex.operators] for vertex in made.vertices]


def edges(made: ExecutionPlan) -> list[tuple[str, str, str, Partitioning]]:
    return [(edge.id, edge.source, edge.target, edge.partitioning) for edge in made.edges]


def planned(job: sl.Job) -> ExecutionPlan:
    return plan(job).plan


def test_a_whole_job(tmp_path: Path) -> None:
    job = sl.Job("clicks", parallelism=2, max_parallelism=16, checkpoints=sl.Checkpoints(storage=tmp_path))
    stream = rate(job).filter(pc.field("value") > 0).key_by("user").aggregate(n=sl.count(), uid="per-user")
    files(stream)
    spec = make_spec(job)
    assert (spec.job_id, spec.name) == ("clicks", "clicks")
    assert chains(spec.plan) == [["rate", "filter-1"], ["per-user", "out"]]
    assert edges(spec.plan) == [("filter-1->per-user", "rate", "per-user", P.HASH)]
    assert spec.plan.edges[0].key_columns == ("user",)
    assert spec.plan.edges[0].schema == sl.sources.Rate().schema
    assert spec.plan.slots == 2
    source, keyed = spec.plan.vertices
    assert (source.id, source.name, source.is_source) == ("rate", "Rate -> filter", True)
    assert (keyed.id, keyed.name, keyed.is_source) == ("per-user", "aggregate -> Files", False)
    assert {vertex.max_parallelism for vertex in spec.plan.vertices} == {16}
    aggregate, out = keyed.operators
    assert aggregate.key is not None
    assert (aggregate.key.columns, aggregate.key.type) == (("user",), pa.string())
    assert aggregate.schema == pa.schema([("user", pa.string()), ("n", pa.int64())])
    assert (out.schema, out.is_sink, out.has_state, out.key) == (None, True, True, None)
    assert [operator.has_state for vertex in spec.plan.vertices for operator in vertex.operators] == [
        True,
        False,
        True,
        True,
    ]
    assert list(spec.sources) == ["rate"]
    shipment = unpack(spec.shipment)
    assert shipment.plan == spec.plan
    assert [type(item) for item in shipment.make_operators("rate")] == [SourceHead, FilterExpression]
    assert [type(item) for item in shipment.make_operators("per-user")] == [RunningAggregates, SinkOperator]


def test_the_key_of_several_columns_is_a_struct_and_dictionaries_count_as_their_values() -> None:
    job = sl.Job("x")
    schema = pa.schema([("a", pa.dictionary(pa.int8(), pa.string())), ("b", pa.int64())])
    stream = rate(job).map_batches(lambda batch: batch, schema=schema)
    files(stream.key_by("b", "a").aggregate(n=sl.count(), uid="n"))
    key = planned(job).vertex("n").operators[0].key
    assert key is not None
    assert key.columns == ("b", "a")
    assert key.type == pa.struct([("b", pa.int64()), ("a", pa.string())])


def test_another_parallelism_ends_a_chain_and_rebalances() -> None:
    job = sl.Job("x", parallelism=2)
    stream = rate(job, parallelism=1).filter(pc.field("value") > 0).filter(pc.field("value") > 1)
    files(stream, parallelism=3)
    made = planned(job)
    assert chains(made) == [["rate"], ["filter-1", "filter-2"], ["out"]]
    assert [edge[3] for edge in edges(made)] == [P.REBALANCE, P.REBALANCE]
    assert [vertex.parallelism for vertex in made.vertices] == [1, 2, 3]
    assert made.slots == 3


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (lambda stream: stream.rebalance(), P.REBALANCE),
        (lambda stream: stream.broadcast(), P.BROADCAST),
        (lambda stream: stream.global_(), P.GLOBAL),
    ],
)
def test_edges_that_move_rows_are_not_chained(move: Any, expected: Partitioning) -> None:
    job = sl.Job("x")
    files(move(rate(job)))
    made = planned(job)
    assert chains(made) == [["rate"], ["out"]]
    assert edges(made) == [("rate->out", "rate", "out", expected)]


def test_a_stream_that_goes_to_two_operators_is_the_end_of_its_chain() -> None:
    job = sl.Job("x")
    stream = rate(job).filter(pc.field("value") > 0)
    files(stream, "one")
    files(stream.filter(pc.field("value") > 1), "two")
    made = planned(job)
    assert chains(made) == [["rate", "filter-1"], ["one"], ["filter-2", "two"]]
    assert edges(made) == [
        ("filter-1->one", "rate", "one", P.FORWARD),
        ("filter-1->filter-2", "rate", "filter-2", P.FORWARD),
    ]


def test_a_union_starts_a_vertex_and_all_its_edges_are_one_input() -> None:
    job = sl.Job("x")
    one, two = rate(job, "one"), rate(job, "two")
    files(one.union(two.rebalance(), two))
    made = planned(job)
    assert chains(made) == [["one"], ["two"], ["out"]]
    assert edges(made) == [
        ("one->out", "one", "out", P.FORWARD),
        ("two->out", "two", "out", P.REBALANCE),
        ("two->out#2", "two", "out", P.FORWARD),
    ]
    assert {edge.input_index for edge in made.edges} == {0}


def test_an_operator_with_several_inputs_starts_a_vertex() -> None:
    job = sl.Job("x")
    one, two = rate(job, "one"), rate(job, "two")
    left, right = one.key_by("user")._inputs[0], two.key_by("user")._inputs[0]
    inputs = (left, Input(right.node, right.partitioning, right.key_columns, index=1))
    files(job._behind(Node("join", Own(), "join", inputs, one.schema, ("user",), has_state=True)))
    made = planned(job)
    assert chains(made) == [["one"], ["two"], ["join", "out"]]
    assert [edge.input_index for edge in made.edges] == [0, 1]
    other = Input(right.node, right.partitioning, ("id",), index=1)
    job._nodes[2] = replace(job._nodes[2], inputs=(left, other))
    job._nodes[3] = replace(job._nodes[3], inputs=(Input(job._nodes[2]),))
    with pytest.raises(ConfigurationError, match="keyed by different types"):
        plan(job)


def test_uids_of_stateless_operators_count_by_name_and_avoid_those_of_the_user() -> None:
    def make() -> ExecutionPlan:
        job = sl.Job("x")
        stream = rate(job, "filter-1").filter(pc.field("value") > 0).map_batches(lambda batch: batch)
        files(stream.filter(pc.field("value") > 0).filter(pc.field("value") > 0, uid="mine"))
        return planned(job)

    assert chains(make()) == [["filter-1", "filter-2", "map_batches-1", "filter-3", "mine", "out"]]
    assert make() == make()


def test_nodes_in_another_order_are_put_behind_what_they_need() -> None:
    job = sl.Job("x")
    files(rate(job).rebalance())
    job._nodes.reverse()
    assert chains(planned(job)) == [["rate"], ["out"]]


def test_hooks_have_names_of_their_own() -> None:
    def spec(*hooks: Any) -> Any:
        job = sl.Job("x", hooks=hooks)
        files(rate(job))
        return make_spec(job)

    one, two = Hook("one"), Hook("two")
    assert spec(one, two).hooks == {"one": one, "two": two}
    with pytest.raises(ConfigurationError, match="two hooks have the name 'one'"):
        spec(one, Hook("one"))
    with pytest.raises(ConfigurationError, match="cannot be a hook"):
        spec(object())
    with pytest.raises(ConfigurationError, match="cannot be a hook"):
        spec(Hook(""))


def test_a_function_that_cannot_be_pickled_is_named() -> None:
    job, lock = sl.Job("x"), threading.Lock()

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            return batch

    files(rate(job).map_batches(function))
    with pytest.raises(ConfigurationError, match=r"'map_batches-1' \(map_batches\) cannot be pickled"):
        make_spec(job)


def test_a_job_started_twice_without_storage_has_two_ids() -> None:
    job = sl.Job("x")
    files(rate(job))
    assert make_spec(job).job_id != make_spec(job).job_id
