"""Rows of one side of a join: what a batch does to them, and how they are found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tests.unit.operators.changes.running_changes import batch_of

from snapline.operators.changes.changes import with_change
from snapline.operators.changes.join_sides import AppendedRows, CountedRows, JoinSide, net_rows, repeated
from snapline.operators.changes.key_layout import KeyLayout
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.memory_backend import MemoryBackend

PLAIN = pa.schema([("k", pa.string()), ("v", pa.int64())])
CHANGING = with_change(PLAIN)


def side_of(schema: pa.Schema, unique: tuple[str, ...] | None = None) -> tuple[JoinSide, KeyLayout, MemoryBackend]:
    layout = KeyLayout(schema, ["k"], nullable=[False])
    keyed = MemoryBackend(pa.string(), max_parallelism=128, key_groups=KeyGroupRange(0, 127), clock=lambda: 0, uid="it")
    return JoinSide(layout.schema(schema), ("k", "v"), layout.key_columns, ("k",), unique), layout, keyed


def test_what_cancels_out_in_a_batch_is_not_seen() -> None:
    side, layout, keyed = side_of(CHANGING)
    rows = CountedRows(keyed, "left", side)
    given = [("a", 1, 0), ("a", 2, 0), ("a", 1, 3), ("b", 1, 0), ("b", 1, 0), ("c", 1, 1)]
    changes = rows.changes(layout.with_keys(batch_of(CHANGING, given)), None, keyed)
    assert [(row["k"], row["v"]) for row in changes.rows.to_pylist()] == [("c", 1), ("a", 2), ("b", 1)]
    assert changes.weights.tolist() == [-1, 1, 2]
    assert sorted(changes.totals.tolist()) == [-1, 1, 2]


def test_rows_are_found_with_how_often_they_are_there() -> None:
    side, layout, keyed = side_of(CHANGING)
    rows = CountedRows(keyed, "left", side)
    for given in ([("a", 1, 0), ("a", 1, 0), ("b", 2, 0)], [("a", 1, 3), ("b", 2, 3)]):
        changes = rows.changes(layout.with_keys(batch_of(CHANGING, given)), None, keyed)
        is_gone = rows.apply(changes)
    assert is_gone.tolist() == [False, True]
    found = rows.find(keyed.keys([pa.array(["b", "a", "x"])]))
    assert (found.counts.tolist(), found.weights.tolist(), found.totals.tolist()) == ([0, 1, 0], [1], [0, 1, 0])


def test_a_unique_key_replaces_its_row() -> None:
    side, layout, keyed = side_of(CHANGING, unique=("k",))
    rows = CountedRows(keyed, "left", side)
    for given in ([("a", 1, 0)], [("a", 1, 1), ("a", 2, 2)]):
        rows.apply(rows.changes(layout.with_keys(batch_of(CHANGING, given)), None, keyed))
    found = rows.find(keyed.keys([pa.array(["a"])]))
    assert found.rows.to_pylist() == [{"k": "a", "v": 2}]


def test_rows_that_are_only_added_are_listed_as_often_as_they_came() -> None:
    side, layout, keyed = side_of(PLAIN)
    assert not side.is_changing
    rows = AppendedRows(keyed, "left", side)
    batch = layout.with_keys(batch_of(PLAIN, [("a", 1), (None, 5), ("a", 1)]))
    changes = rows.changes(batch, np.array([0, 2]), keyed)
    assert not rows.apply(changes).any()
    assert rows.find(keyed.keys([pa.array(["a"])])).rows.to_pylist() == [{"k": "a", "v": 1}] * 2


def test_net_rows_keep_the_order_of_arrival() -> None:
    rows, net = net_rows(np.array([0, 0, 1]), pa.array([b"b", b"a", b"b"]), None)
    assert (rows.tolist(), net.tolist()) == ([0, 1, 2], [1, 1, 1])
    rows, net = net_rows(np.array([0, 0, 0]), pa.array([b"b", b"a", b"b"]), np.array([1, -1, 1]))
    assert (rows.tolist(), net.tolist()) == ([1, 0], [-1, 2])


def test_rows_are_repeated_by_their_weight() -> None:
    assert repeated(np.array([1, -1]))[0] is None
    rows, signs = repeated(np.array([2, -1]))
    assert rows is not None
    assert (rows.tolist(), signs.tolist()) == ([0, 0, 1], [1, 1, -1])
