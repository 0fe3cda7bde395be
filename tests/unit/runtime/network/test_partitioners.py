"""Which rows go where."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.errors import EngineError
from snapline.runtime.network.partitioners import Hash, Partitioner, Rebalance, make_partitioner
from snapline.runtime.wire.channel_items import data_item
from snapline.state.stable_hash import NullKeyError, hash_key
from snapline.types import Partitioning


def batch(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(keys, pa.int64()), pa.array(range(len(keys)), pa.int64()), pa.array([str(key) for key in keys])],
        names=["key", "order", "text"],
    )


@given(st.lists(st.integers(-5, 50)), st.integers(1, 40), st.sampled_from([40, 128, 1000]))
@settings(max_examples=50, deadline=None)
def test_hash_sends_each_row_to_the_owner_of_its_key_group(keys: list[int], targets: int, groups: int) -> None:
    partitioner = make_partitioner(Partitioning.HASH, ("key",), targets, groups, 0)
    given_batch = batch(keys)
    expected: dict[int, list[int]] = defaultdict(list)
    for order, key in enumerate(keys):
        expected[hash_key(key) % groups * targets // groups].append(order)
    parts = partitioner.split(given_batch)
    assert {target: part.column("order").to_pylist() for target, part in parts} == expected
    assert len(parts) == len(expected)
    for target in range(targets):
        assert partitioner.owned(given_batch, target).column("order").to_pylist() == expected.get(target, [])
    for _, part in parts:
        part.validate(full=True)
        assert part.column("text").to_pylist() == [str(key) for key in part.column("key").to_pylist()]
    items = partitioner.split_items(given_batch)
    assert [(target, item.value) for target, item in items] == parts
    for _, item in items:
        assert item.size >= item.value.num_rows


def test_a_batch_of_one_owner_is_not_copied() -> None:
    for targets in (1, 4):
        partitioner = make_partitioner(Partitioning.HASH, ("key",), targets, 128, 0)
        given_batch = batch([7] * 10)
        ((target, part),) = partitioner.split(given_batch)
        assert part is given_batch
        assert partitioner.owned(given_batch, target) is given_batch


def test_columns_arrow_has_no_take_for() -> None:
    keys = list(range(50))
    words = pa.array([f"a word longer than twelve bytes: {key % 3}" for key in keys])
    columns = {
        "key": pa.array(keys),
        "text": words.cast(pa.string_view()),
        "bytes": words.cast(pa.binary()).cast(pa.binary_view()),
        "runs": pc.run_end_encode(words),
    }
    given_batch = pa.record_batch(columns)
    partitioner = make_partitioner(Partitioning.HASH, ("key",), 3, 128, 0)
    parts = partitioner.split(given_batch)
    assert len(parts) == 3
    for target, part in parts:
        assert part.schema.equals(given_batch.schema)
        part.validate(full=True)
        rows = part.column("key").to_pylist()
        for name in ("text", "bytes", "runs"):
            assert part.column(name).to_pylist() == [columns[name][row].as_py() for row in rows]
        assert partitioner.owned(given_batch, target).to_pylist() == part.to_pylist()


def test_several_key_columns() -> None:
    partitioner = make_partitioner(Partitioning.HASH, ("key", "text"), 3, 128, 0)
    parts = dict(partitioner.split(batch(list(range(100)))))
    assert sum(part.num_rows for part in parts.values()) == 100
    expected = hash_key(5, "5") % 128 * 3 // 128
    assert 5 in parts[expected].column("key").to_pylist()


def test_rebalance_deals_out_whole_batches_by_turns() -> None:
    partitioner = make_partitioner(Partitioning.REBALANCE, (), 3, 128, 2)
    turns = [partitioner.split(batch([1, 2])) for _ in range(4)]
    assert [part[0][0] for part in turns] == [2, 0, 1, 2]
    assert all(len(part) == 1 for part in turns)
    assert partitioner.owned(batch([1]), 1).num_rows == 1


def test_rebalance_does_not_give_a_huge_batch_to_one() -> None:
    partitioner = Rebalance(3, 0, limit_bytes=1000)
    parts = partitioner.split(batch(list(range(1000))))
    assert {target for target, _ in parts} == {0, 1, 2}
    assert [number for _, part in parts for number in part.column("key").to_pylist()] == list(range(1000))
    assert max(data_item(part).size for _, part in parts) < 2000
    assert len(Rebalance(1, 0, limit_bytes=1000).split(batch(list(range(1000))))) == 1


def test_broadcast_global_and_forward() -> None:
    given_batch = batch([1, 2])
    broadcast = make_partitioner(Partitioning.BROADCAST, (), 3, 128, 1)
    assert broadcast.split(given_batch) == [(0, given_batch), (1, given_batch), (2, given_batch)]
    everything_to_one = make_partitioner(Partitioning.GLOBAL, (), 3, 128, 1)
    assert everything_to_one.split(given_batch) == [(0, given_batch)]
    assert everything_to_one.owned(given_batch, 0) is given_batch
    assert everything_to_one.owned(given_batch, 1).num_rows == 0
    assert make_partitioner(Partitioning.FORWARD, (), 3, 128, 1).split(given_batch) == [(1, given_batch)]
    with pytest.raises(EngineError):
        broadcast.owned(given_batch, 0)


@pytest.mark.parametrize("partitioning", list(Partitioning))
def test_an_empty_batch_goes_nowhere(partitioning: Partitioning) -> None:
    partitioner = make_partitioner(partitioning, ("key",), 3, 128, 1)
    assert partitioner.split(batch([])) == []
    assert partitioner.split_items(batch([])) == []


@pytest.mark.parametrize("partitioner", [Rebalance(4, 0), Hash(["key"], 4, 128)])
def test_parts_do_not_carry_the_views_of_others(partitioner: Partitioner) -> None:
    text = pa.array([f"{number}-{'x' * 500}" for number in range(4000)], pa.string_view())
    batch = pa.record_batch({"key": pa.array(range(4000)), "text": text})
    parts = [part for _, part in partitioner.split(batch)]
    assert len(parts) >= 4
    assert sorted(row["key"] for part in parts for row in part.to_pylist()) == list(range(4000))
    assert all(row["text"].startswith(f"{row['key']}-") for part in parts for row in part.to_pylist())
    assert sum(part.serialize().size for part in parts) < 1.5 * batch.nbytes


@pytest.mark.parametrize("targets", [1, 3])
def test_nulls_in_keys_are_told_with_the_column_and_the_operator(targets: int) -> None:
    partitioner = make_partitioner(Partitioning.HASH, ("city", "user"), targets, 128, 0, "aggregate 'counts'")
    batch = pa.record_batch({"user": pa.array(["a", None]), "city": pa.array([1, 2])})
    with pytest.raises(NullKeyError, match=r"^aggregate 'counts': the key column 'user' has nulls") as caught:
        partitioner.split(batch)
    assert "filter(pc.field('user').is_valid())" in str(caught.value)
    assert "with_columns(user=pc.coalesce(pc.field('user'), pc.scalar(...)))" in str(caught.value)
