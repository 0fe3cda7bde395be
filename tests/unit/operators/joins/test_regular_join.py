"""Regular joins: what the model of the property tests leaves out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.unit.operators.joins.join_kit import CHANGE, FULL, INNER, LEFT, PLAIN, Run, batch, layout, values

from snapline.errors import EngineError, UserCodeError
from snapline.operators.joins.join_rows import MAX_ROWS
from snapline.operators.joins.regular_join import JoinStreams
from snapline.state.ttl import Ttl


def test_keys_of_two_columns_and_dictionaries(run: Run) -> None:
    left = pa.schema([("a", pa.dictionary(pa.int8(), pa.string())), ("b", pa.int32()), ("v", pa.string())])
    right = pa.schema([("a", pa.string()), ("b", pa.int32()), ("w", pa.dictionary(pa.int8(), pa.string()))])
    key = pa.struct([("a", pa.string()), ("b", pa.int32())])
    harness = run(JoinStreams(layout(left, right, ("a", "b")), INNER), key=key, key_columns=("a", "b"))
    join = harness.open()
    join.process(batch(left, ("x", 1, "one"), ("x", 2, "two"), ("y", 1, None)), 0)
    join.process(batch(right, ("x", 1, "red"), ("y", 1, "blue"), ("y", 2, "green"), ("x", 1, "red")), 1)
    assert values(harness) == [("x", 1, "one", "red"), ("x", 1, "one", "red"), ("y", 1, None, "blue")]


def test_rows_that_are_nothing_but_a_key_count_as_often_as_they_come(run: Run) -> None:
    bare = pa.schema([("k", pa.int64())])
    harness = run(JoinStreams(layout(bare, PLAIN, ("k",), CHANGE), LEFT), key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(bare, (1,), (1,), (2,)), 0)
    assert values(harness) == [(1, None, "insert"), (1, None, "insert"), (2, None, "insert")]
    join.process(batch(PLAIN, (1, 5)), 1)
    assert values(harness) == [(1, 5, "insert")] * 2 + [(1, None, "delete")] * 2


def test_very_many_pairs_come_in_batches_of_a_limited_size(run: Run) -> None:
    harness = run(JoinStreams(layout(PLAIN, PLAIN, ("k",), CHANGE), FULL), key="bigint", key_columns=("k",))
    join = harness.open()
    many = pa.RecordBatch.from_arrays([np.zeros(500, dtype=np.int64), np.arange(500)], schema=PLAIN)
    join.process(many, 0)
    harness.emitted.clear()
    join.process(many, 1)
    assert max(item.num_rows for item in harness.emitted) == MAX_ROWS
    changes = pa.Table.from_batches(harness.emitted)
    assert Counter(changes["change"].to_pylist()) == {"insert": 250_000, "delete": 500}
    inserted = changes.filter(pc.field("change") == "insert")
    pairs = pc.add(pc.multiply(inserted["v"], 500), inserted["vr"])
    assert pc.count_distinct(pairs).as_py() == 250_000


def test_a_row_is_forgotten_after_its_time_to_live(run: Run) -> None:
    operator = JoinStreams(layout(PLAIN, PLAIN, ("k",), CHANGE), LEFT, Ttl("10s"))
    harness = run(operator, key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(PLAIN, (1, 10)), 1)
    harness.now_ms += 6_000
    join.process(batch(PLAIN, (1, 20)), 0)
    assert values(harness) == [(1, 20, 10, "insert")]
    harness.now_ms += 6_000
    # The right row is gone, but the left one is known to have had a partner: nothing is deleted.
    join.process(batch(PLAIN, (1, 30)), 1)
    assert values(harness) == [(1, 20, 30, "insert")]
    harness.now_ms += 60_000
    join.process(batch(PLAIN, (1, 40)), 1)
    assert values(harness) == []


def test_a_condition_that_fails_for_a_row_is_the_users(run: Run) -> None:
    where = pc.divide_checked(pc.field("v"), pc.field("vr")) > 0
    harness = run(JoinStreams(layout(PLAIN, PLAIN, ("k",)), INNER, where=where), key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(PLAIN, (1, 10)), 0)
    with pytest.raises(UserCodeError, match=r"join 'it': where= failed: divide by zero, for the row \{'k': 1, 'v'"):
        join.process(batch(PLAIN, (1, 0)), 1)


def test_keyed_state_is_needed(run: Run) -> None:
    with pytest.raises(EngineError, match="join 'it' was opened without keyed state"):
        run(JoinStreams(layout(PLAIN, PLAIN, ("k",)), INNER)).open()
