"""Functions of rows, or batches, with one state for each key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.groups import Groups
from snapline.testing.operator_harness import OperatorHarness

BATCH = pa.record_batch({"user": ["a", "b", "a", "c"], "value": [1, 2, 3, 4], "city": ["x", "y", "z", "x"]})
ROWS = BATCH.schema
TOTALS = pa.schema([("user", pa.string()), ("total", pa.int64())])
Run = Callable[..., Any]


def harness(run: Run, operator: Any) -> Any:
    made = run(operator, key="string", key_columns=("user",))
    made.open()
    return made


def keyed() -> sl.KeyedStream:
    return sl.Job("states").source(sl.sources.Generate(lambda start, count: None, schema=ROWS), "rows").key_by("user")


def by_row(function: Callable[..., Any], state: object = int, schema: Any = TOTALS, **options: Any) -> Any:
    return operator_of(keyed().map_with_state(function, state=state, schema=schema, **options))


def operator_of(stream: sl.Stream) -> Any:
    return stream._inputs[0].node.operator


def added(state: int | None, row: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    total = (state or 0) + row["value"]
    return total, {"user": row["user"], "total": total}


def test_the_state_of_a_key_goes_from_row_to_row_and_batch_to_batch(run: Run) -> None:
    it = harness(run, by_row(added))
    it.operator.process(BATCH, 0)
    it.operator.process(BATCH.slice(0, 0), 0)
    it.operator.process(BATCH.slice(2), 0)
    totals = [("a", 1), ("b", 2), ("a", 4), ("c", 4), ("a", 7), ("c", 8)]
    assert [tuple(row.values()) for row in it.rows()] == totals


def test_columns_are_arguments_and_key_columns_are_copied(run: Run) -> None:
    def function(state: int | None, value: int) -> tuple[int, int]:
        total = (state or 0) + value
        return total, total

    it = harness(run, by_row(function, columns=("value",)))
    it.operator.process(BATCH, 0)
    assert it.rows() == [{"user": user, "total": total} for user, total in zip("abac", [1, 2, 4, 4], strict=True)]


def test_several_columns_and_none(run: Run) -> None:
    def last(state: str | None, city: str, value: int) -> tuple[str, tuple[str | None, int] | None]:
        return city, None if value == 2 else (state, value)

    schema = pa.schema([("before", pa.string()), ("user", pa.string()), ("value", pa.int8())])
    it = harness(run, by_row(last, str, schema, columns=("city", "value")))
    it.operator.process(BATCH, 0)
    assert [tuple(row.values()) for row in it.rows()] == [(None, "a", 1), ("x", "a", 3), (None, "c", 4)]

    counting = harness(run, by_row(lambda state: ((state or 0) + 1, (state or 0) + 1), columns=()))
    counting.operator.process(BATCH, 0)
    assert [row["total"] for row in counting.rows()] == [1, 1, 2, 1]


def test_no_row_comes_out_for_none(run: Run) -> None:
    for operator in (
        by_row(lambda state, row: (1, None)),
        by_row(lambda state, value: (1, None), columns=("value",)),
        by_row(lambda state, value: (1, None), schema="user STRING, a INT, b INT", columns=("value",)),
    ):
        it = harness(run, operator)
        it.operator.process(BATCH, 0)
        assert it.emitted == []
        assert it.operator._state.take(["a", "b"]).to_pylist() == [1, 1]
    odd = harness(run, by_row(lambda state, value: (state, value if value % 2 else None), columns=("value",)))
    odd.operator.process(BATCH, 0)
    assert odd.rows() == [{"user": "a", "total": 1}, {"user": "a", "total": 3}]


def test_a_state_of_none_is_none(run: Run) -> None:
    it = harness(run, by_row(lambda state, row: (None if state else 5, {"user": row["user"], "total": state or 0})))
    it.operator.process(BATCH, 0)
    assert [row["total"] for row in it.rows()] == [0, 0, 5, 0]
    assert it.operator._state.take(["a", "b"]).to_pylist() == [None, 5]


@pytest.mark.parametrize("state", ["n BIGINT, names ARRAY<STRING>", object])
def test_states_of_several_values(run: Run, state: object) -> None:
    def function(state: Any, row: dict[str, Any]) -> Any:
        state = state or {"n": 0, "names": []}
        new = {"n": state["n"] + 1, "names": [*state["names"], row["city"]]}
        return new, {"user": ",".join(new["names"]), "total": new["n"]}

    it = harness(run, by_row(function, state))
    it.operator.process(BATCH, 0)
    it.operator.process(BATCH, 0)
    assert it.rows()[-2:] == [{"user": "x,z,x,z", "total": 4}, {"user": "x,x", "total": 2}]


def test_states_have_a_time_to_live(run: Run) -> None:
    it = harness(run, by_row(added, ttl=sl.Ttl("10s")))
    it.operator.process(BATCH, 0)
    it.rows()
    it.now_ms += 10_000
    it.operator.process(BATCH.slice(0, 1), 0)
    assert it.rows() == [{"user": "a", "total": 1}]


@pytest.mark.parametrize(
    ("operator", "complaint"),
    [
        (by_row(lambda state, row: 5), "map_with_state 'it' gave 5; it must return two things"),
        (by_row(lambda state, row: None), "gave None; it must"),
        (by_row(lambda state, row: (1, 2, 3)), r"gave \(1, 2, 3\); it must"),
        (by_row(lambda state, row: (1, row["x"])), "map_with_state 'it' raised KeyError: 'x'"),
        (
            by_row(lambda state, row: (1.5, None)),
            "gave a state of another type: 1.5 is no value of type int64",
        ),
        (by_row(lambda state, row: (1, {"user": "a"})), "gave a row without 'total'"),
        (by_row(lambda state, value: (1, "x"), columns=("value",)), "gave the column 'total' other values"),
        (by_row(lambda state, value: (1, 2), schema="a INT, b INT", columns=("value",)), "a tuple of 2, for 'a', 'b'"),
        (by_row(lambda state, value: (1, (2,)), schema="a INT, b INT", columns=("value",)), r"gave \(2,\) as output"),
    ],
)
def test_wrong_functions_name_the_operator(run: Run, operator: Any, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        harness(run, operator).operator.process(BATCH, 0)


def summed(old: pa.Array, groups: Groups, batch: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
    new = groups.sum(batch.column("value"), onto=old)
    users = groups.first(batch.column("user"))
    return new, pa.record_batch({"user": users, "total": new})


def test_states_of_a_batch_are_updated_at_once(run: Run) -> None:
    it = harness(run, operator_of(keyed().update_state(summed, state=int, schema=TOTALS)))
    it.operator.process(BATCH, 0)
    it.operator.process(BATCH.slice(0, 1), 0)
    assert sorted(tuple(row.values()) for row in it.rows()) == [("a", 4), ("a", 5), ("b", 2), ("c", 4)]


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (
            lambda old, groups, batch: old,
            "(?s)update_state 'it' gave .*it must return the new values of the keys and a batch",
        ),
        (lambda old, groups, batch: (old, 5), "gave 5 as output; it must return a RecordBatch"),
        (lambda old, groups, batch: (old, batch), "gave a batch without 'total' and with 'value', 'city'"),
        (lambda old, groups, batch: ([1], None), "returned 1 values for 3 keys"),
        (lambda old, groups, batch: pc.add(old, "x"), "update_state 'it' raised Arrow"),
    ],
)
def test_wrong_updates_name_the_operator(run: Run, function: Any, complaint: str) -> None:
    it = harness(run, operator_of(keyed().update_state(function, state=int, schema=TOTALS)))
    with pytest.raises(UserCodeError, match=complaint):
        it.operator.process(BATCH, 0)


def test_a_state_with_fields_is_a_tuple_with_columns(run: Any) -> None:
    def step(state: Any, n: int) -> Any:
        count, total = state or (0, 0)
        assert state is None or type(state) is tuple
        return (None if n < 0 else (count + 1, total + n)), (count + 1, total + n)

    schema = "user STRING, count BIGINT, total BIGINT"
    operator = by_row(step, "count BIGINT, total BIGINT", schema, columns=("value",))
    harness = run(operator, key="string", key_columns=("user",))
    harness.open()
    for part in ([("a", 1), ("b", 2), ("a", 3)], [("a", 4), ("b", -1)], [("b", 7), ("a", 1)]):
        harness.operator.process(
            pa.RecordBatch.from_pylist([{"user": u, "value": n, "city": "x"} for u, n in part], schema=ROWS), 0
        )
    assert [tuple(row.values()) for row in harness.rows()] == [
        ("a", 1, 1),
        ("b", 1, 2),
        ("a", 2, 4),
        ("a", 3, 8),
        ("b", 2, 1),
        ("b", 1, 7),
        ("a", 4, 9),
    ]


@pytest.mark.parametrize("state", [5, {"count": 1, "total": 2}, (1,), (1, "x")])
def test_a_state_that_is_no_such_tuple(run: Any, state: Any) -> None:
    operator = by_row(
        lambda old, n: (state, n), "count BIGINT, total BIGINT", "user STRING, n BIGINT", columns=("value",)
    )
    harness = run(operator, key="string", key_columns=("user",))
    harness.open()
    with pytest.raises(UserCodeError, match=r"map_with_state .it. gave .* state"):
        harness.operator.process(pa.RecordBatch.from_pylist([{"user": "a", "value": 1, "city": "x"}], schema=ROWS), 0)


VALUES = pa.record_batch({"user": ["a", "b", "a", "a", "b"], "value": [1, 2, 0, 4, 5], "city": ["x"] * 5})


def letters(it: Any) -> list[Any]:
    return [json.loads(letter["row"])["value"] for letter in it.side_rows("dead_letters")]


def divided(state: int | None, value: int) -> tuple[Any, ...]:
    """The total so far; wrong in every way a function can be, for some values."""
    total = (state or 0) + value
    if value == 0:
        return 1 // value, None
    if value == -1:
        return total, "text"
    if value == -2:
        return "text", total
    return (total,) if value == -3 else (total, total)


@pytest.mark.parametrize("columns", [None, ("value",)])
@pytest.mark.parametrize("wrong", [0, -1, -2, -3])
def test_a_row_that_fails_leaves_the_state_of_its_key_as_it_was(
    run: Run, columns: tuple[str, ...] | None, wrong: int
) -> None:
    def by_rows(state: int | None, row: dict[str, Any]) -> Any:
        made = divided(state, row["value"])
        return (made[0], made[1] and {"user": row["user"], "total": made[1]}) if len(made) == 2 else made

    function: Any = by_rows if columns is None else divided
    it = harness(run, by_row(function, columns=columns, on_error="dead_letter"))
    values = pa.array([1, 2, wrong, 4, 5])
    it.operator.process(VALUES.set_column(1, "value", values), 0)
    # A row whose output does not fit has changed the state before.
    total = 4 if wrong == -1 else 5
    expected = [("a", 1), ("b", 2), ("a", total), ("b", 7)]
    assert sorted(tuple(row.values()) for row in it.rows()) == sorted(expected)
    assert letters(it) == [wrong]
    assert it.operator.bad_rows == 1


def test_states_that_are_objects_are_changed_once_for_each_row(run: Run) -> None:
    """The function is not called again for the rows that it has not failed for."""

    def grown(state: list[int] | None, row: dict[str, Any]) -> Any:
        state = [] if state is None else state
        state.append(60 // row["value"] and row["value"])
        total = "wrong" if row["value"] == 4 else sum(state)
        return state, {"user": row["user"], "total": total}

    it = harness(run, by_row(grown, state=object, on_error="dead_letter"))
    it.operator.process(VALUES, 0)
    it.operator.process(VALUES.slice(0, 1), 0)
    assert [row["total"] for row in it.rows()] == [1, 2, 7, 6]
    assert letters(it) == [0, 4]


def test_a_function_of_batches_and_states_is_called_again_with_parts(run: Run) -> None:
    sizes: list[int] = []

    def checked(old: pa.Array, groups: Groups, batch: pa.RecordBatch) -> Any:
        sizes.append(batch.num_rows)
        if 0 in batch["value"].to_pylist():
            raise ValueError("zero")
        return groups.sum(batch["value"], onto=old), None

    stream = keyed().update_state(checked, state="bigint", schema=TOTALS, on_error="drop")
    it = harness(run, operator_of(stream))
    it.operator.process(VALUES, 0)
    assert sizes == [5, 2, 3, 1, 2]
    assert it.operator.bad_rows == 1
    keys = it.states.keyed.keys([pa.array(["a", "b"])])
    assert it.states.keyed.value_state("state", "bigint").take(keys).to_pylist() == [5, 7]
    failing = harness(run, operator_of(keyed().update_state(checked, state="bigint", schema=TOTALS)))
    with pytest.raises(UserCodeError, match="update_state 'it' raised ValueError: zero, in a batch of 5 rows"):
        failing.operator.process(VALUES, 0)


def test_objects_that_may_have_changed_cannot_be_tried_again() -> None:
    with pytest.raises(ConfigurationError, match="the function may have changed objects before it fails"):
        keyed().update_state(lambda *_: None, state=object, schema=TOTALS, on_error="drop")


@pytest.mark.parametrize("columns", [None, ["value"]])
def test_a_changed_job_takes_over_its_states(columns: list[str] | None) -> None:
    def old(state: str | None, row: Any) -> tuple[str, Any]:
        value = row["value"] if columns is None else row
        return f"{int(state or 0) + value}", None

    def new(state: int | None, row: Any) -> tuple[int, Any]:
        total = (state or 0) + (row["value"] if columns is None else row)
        return total, {"user": row["user"], "total": total} if columns is None else total

    before = keyed().map_with_state(old, state=str, schema=TOTALS, columns=columns, uid="it")
    with OperatorHarness.of(before) as it:
        it.process(BATCH)
        it.restart(keyed().map_with_state(new, state=int, schema=TOTALS, columns=columns, migrate=int, uid="it"))
        it.process(BATCH.slice(3))
        assert it.rows() == [{"user": "c", "total": 8}]
