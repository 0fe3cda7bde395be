"""Joins of changes against plain Python: any changes, cut anywhere, with restores and rescales in between."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.changes.running_changes import LiveRows, Row, all_gone, running

from snapline.operators.changes.changes import is_changing, with_change
from snapline.operators.changes.changing_join import JoinChanges, JoinKind
from snapline.operators.changes.join_sides import JoinSide
from snapline.operators.changes.key_layout import KeyLayout

EXAMPLES = 4
EXAMPLES_ON_DISK = 5
"""Of any combination each: opening, copying and deleting databases takes most of the time."""

LEFT = pa.schema([("k", pa.string()), ("j", pa.decimal128(5, 1)), ("v", pa.int64())])
RIGHT = pa.schema([("k2", pa.string()), ("j2", pa.decimal128(5, 1)), ("w", pa.int64()), ("name", pa.string())])

keys = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1, None]))
left_rows = st.tuples(keys, st.integers(0, 3) | st.none()).map(lambda row: (*row[0], row[1]))
right_rows = st.tuples(keys, st.integers(0, 3) | st.none(), st.sampled_from("xy")).map(lambda row: (*row[0], *row[1:]))
changes = st.integers(0, 3), st.integers(0, 50)
left_steps = st.lists(st.tuples(changes[0], left_rows, changes[1]), max_size=6)
right_steps = st.lists(st.tuples(changes[0], right_rows, changes[1]), max_size=6)
batches = st.one_of(st.tuples(st.just(0), left_steps), st.tuples(st.just(1), right_steps))
events = st.lists(st.one_of(batches, batches, batches, st.integers(1, 3)), max_size=14)


def condition(pairs: pa.RecordBatch) -> pa.Array:
    return pc.less_equal(pairs.column("v"), pairs.column("w"))


def are_partners(left: Row, right: Row, null_safe: bool, where: bool) -> bool:
    if left[0] is None or left[0] != right[0]:
        return False
    if left[1] != right[1] or (left[1] is None and not null_safe):
        return False
    return not where or (left[2] is not None and right[2] is not None and left[2] <= right[2])


def expected(kind: JoinKind, lefts: list[Row], rights: list[Row], null_safe: bool, where: bool) -> Counter[Row]:
    result: Counter[Row] = Counter()
    met: set[int] = set()
    for left in lefts:
        found = [number for number, right in enumerate(rights) if are_partners(left, right, null_safe, where)]
        met.update(found)
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            result[left] += bool(found) == (kind is JoinKind.SEMI)
            continue
        result.update((*left, *rights[number]) for number in found)
        if not found and kind in (JoinKind.LEFT, JoinKind.FULL):
            result[(*left, None, None, None, None)] += 1
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        result.update((None, None, None, *right) for number, right in enumerate(rights) if number not in met)
    return +result


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("changing", [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("kind", list(JoinKind))
@given(events=events, null_safe=st.booleans())
@settings(max_examples=EXAMPLES)
def test_joins(kind: JoinKind, changing: tuple[bool, bool], where: bool, events: list[Any], null_safe: bool) -> None:
    check_joins(kind, changing, where, "memory", events, null_safe)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(JoinKind))
@given(changing=st.tuples(st.booleans(), st.booleans()), where=st.booleans(), events=events, null_safe=st.booleans())
@settings(max_examples=EXAMPLES_ON_DISK)
def test_joins_on_disk(
    kind: JoinKind, changing: tuple[bool, bool], where: bool, events: list[Any], null_safe: bool
) -> None:
    check_joins(kind, changing, where, "rocksdb", events, null_safe)


def check_joins(
    kind: JoinKind, changing: tuple[bool, bool], where: bool, backend: str, events: list[Any], null_safe: bool
) -> None:
    schemas = [with_change(schema) if one else schema for schema, one in zip((LEFT, RIGHT), changing, strict=True)]
    columns = LEFT.names, RIGHT.names
    layouts = [
        KeyLayout(schema, names[:2], nullable=[False, null_safe])
        for schema, names in zip(schemas, columns, strict=True)
    ]
    left, right = (
        JoinSide(schema, tuple(names), layout.key_columns, tuple(names[:1] if null_safe else names[:2]))
        for schema, names, layout in zip(
            [layout.schema(schema) for layout, schema in zip(layouts, schemas, strict=True)],
            columns,
            layouts,
            strict=True,
        )
    )
    live = [LiveRows(schema) for schema in schemas]
    operator = JoinChanges(kind, left, right, condition=condition if where else None)
    if not any(changing):
        assert is_changing(operator.output_schema) == (kind not in (JoinKind.INNER, JoinKind.SEMI))
    with running(operator, layouts, backend) as join:
        for event in events:
            if isinstance(event, int):
                join.restart(event)
                continue
            side, steps = event
            join.process(live[side].batch(steps), side)
            # At each moment, not only in the end.
            assert join.result == expected(kind, live[0].rows, live[1].rows, null_safe, where)
        if all(changing) and backend == "memory":
            for side in (0, 1):
                join.process(all_gone(live[side]), side)
            assert not join.result
            assert join.stored_entries() == {}


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("kind", list(JoinKind))
@given(events=events)
@settings(max_examples=EXAMPLES)
def test_joins_of_rows_with_a_unique_key(kind: JoinKind, where: bool, events: list[Any]) -> None:
    check_joins_with_a_unique_key(kind, where, "memory", events)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(JoinKind))
@given(where=st.booleans(), events=events)
@settings(max_examples=EXAMPLES_ON_DISK)
def test_joins_of_rows_with_a_unique_key_on_disk(kind: JoinKind, where: bool, events: list[Any]) -> None:
    check_joins_with_a_unique_key(kind, where, "rocksdb", events)


def check_joins_with_a_unique_key(kind: JoinKind, where: bool, backend: str, events: list[Any]) -> None:
    """The right side replaces the row of a name, or of a key alone, as an aggregate would."""
    schemas = with_change(LEFT), with_change(RIGHT)
    columns = LEFT.names, RIGHT.names
    layouts = [KeyLayout(schema, names[:1], nullable=[False]) for schema, names in zip(schemas, columns, strict=True)]
    left = JoinSide(layouts[0].schema(schemas[0]), tuple(LEFT.names), layouts[0].key_columns, ("k",))
    right = JoinSide(
        layouts[1].schema(schemas[1]), tuple(RIGHT.names), layouts[1].key_columns, ("k2",), unique=("k2", "name")
    )
    live = [LiveRows(schema) for schema in schemas]
    operator = JoinChanges(kind, left, right, condition=condition if where else None)
    with running(operator, layouts, backend) as join:
        for event in events:
            if isinstance(event, int):
                join.restart(event)
                continue
            side, steps = event
            if side == 0:
                join.process(live[0].batch([(kind_, (row[0], 1, row[2]), at) for kind_, row, at in steps]))
            else:
                replaced = []
                for kind_, row, at in steps:
                    row = (row[0], 1, *row[2:])
                    known = [at for at, old in enumerate(live[1].rows) if (old[0], old[3]) == (row[0], row[3])]
                    # One step at a time, because places of rows shift.
                    if known:
                        replaced.append(live[1].batch([(1, row, known[0])]))
                        if kind_ == 3:
                            continue
                    replaced.append(live[1].batch([(2, row, at)]))
                if replaced:
                    join.process(pa.Table.from_batches(replaced).combine_chunks().to_batches()[0], 1)
            assert join.result == expected(kind, live[0].rows, live[1].rows, False, where)
        if backend == "memory":
            for side in (1, 0):
                join.process(all_gone(live[side]), side)
            assert not join.result
            assert join.stored_entries() == {}
