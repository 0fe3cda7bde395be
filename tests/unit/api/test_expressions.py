"""Columns and expressions: schemas known at once, and typos are reported where they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.unit.operators.conftest import Harness

from snapline.api import expressions
from snapline.errors import ConfigurationError, UserCodeError

BATCH = pa.record_batch({"user": ["a", "b"], "net": pa.array([1, None], pa.int32()), "ratio": [0.5, 2.0]})
ROWS = BATCH.schema


def emitted(operator: Any, batch: pa.RecordBatch = BATCH) -> pa.RecordBatch:
    harness = Harness(cloudpickle.loads(cloudpickle.dumps(operator)))
    harness.open().process(batch, 0)
    (made,) = harness.emitted
    assert made.schema.equals(operator.schema)
    return made


def test_select_takes_columns_and_expressions() -> None:
    operator = expressions.select(
        ROWS, ["user", pc.field("net")], {"gross": pc.field("ratio") * 2, "one": pc.scalar(1)}
    )
    assert emitted(operator).to_pylist() == [
        {"user": "a", "net": 1, "gross": 1.0, "one": 1},
        {"user": "b", "net": None, "gross": 4.0, "one": 1},
    ]
    assert emitted(expressions.select(ROWS, [], {"who": "user"})).to_pylist() == [{"who": "a"}, {"who": "b"}]


def test_plain_columns_are_not_copied() -> None:
    made = emitted(expressions.select(ROWS, ["ratio", pc.field("user")], {}))
    assert made.column("ratio").buffers()[1].address == BATCH.column("ratio").buffers()[1].address
    assert made.column("user").buffers()[2].address == BATCH.column("user").buffers()[2].address


def test_with_columns_replaces_in_place_and_adds_behind() -> None:
    operator = expressions.with_columns(ROWS, {"more": pc.field("ratio") > 1, "net": pc.field("ratio")})
    assert operator.schema.names == ["user", "net", "ratio", "more"]
    assert emitted(operator).to_pylist()[1] == {"user": "b", "net": 2.0, "ratio": 2.0, "more": True}


def test_drop_and_rename() -> None:
    assert emitted(expressions.drop(ROWS, ["net", "user"])).to_pydict() == {"ratio": [0.5, 2.0]}
    assert emitted(expressions.rename(ROWS, {"user": "net", "net": "user"})).schema.names == ["net", "user", "ratio"]


def test_large_batches_come_out_as_one() -> None:
    batch = pa.record_batch({"n": pa.array(range(200_000))})
    made = emitted(expressions.with_columns(batch.schema, {"m": pc.field("n") + 1}), batch)
    assert made.column("m").equals(pc.add(batch.column("n"), 1))


def test_an_expression_that_fails_for_a_row_names_the_operator() -> None:
    operator = expressions.with_columns(ROWS, {"x": pc.divide_checked(pc.field("net"), 0)})
    with pytest.raises(UserCodeError, match="with_columns 'it', column 'x', failed: divide by zero"):
        emitted(operator)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: expressions.select(ROWS, ["usr"], {}), "select: there is no column 'usr'.*Did you mean 'user'"),
        (lambda: expressions.select(ROWS, [], {}), "nothing is selected"),
        (lambda: expressions.select(ROWS, ["user", "user"], {}), "two columns 'user'"),
        (lambda: expressions.select(ROWS, ["user"], {"user": "net"}), "two columns 'user'"),
        (lambda: expressions.select(ROWS, [pc.field("net") + 1], {}), "a computed column needs a name"),
        (lambda: expressions.select(ROWS, [5], {}), r"select\(5\): give names of columns"),
        (lambda: expressions.select(ROWS, [], {"x": pc.scalar(None)}), "the type of the column 'x' is unknown"),
        (
            lambda: expressions.with_columns(ROWS, {"x": pc.field("nett") + 1}),
            r"with_columns: x=add_checked\(nett, 1\) is wrong: there is no column 'nett'; there are 'user'.*"
            "Did you mean 'net'",
        ),
        (
            lambda: expressions.with_columns(ROWS, {"ok": pc.field("net") + 1, "x": pc.field("user") + 1}),
            "x=add_checked.*does not fit rows with the columns user string, net int32",
        ),
        (lambda: expressions.with_columns(ROWS, {}), "nothing to add"),
        (lambda: expressions.with_columns(ROWS, {"x": 5}), r"x=5; give the name of a column.*pc.scalar"),
        (lambda: expressions.drop(ROWS, []), "nothing to drop"),
        (lambda: expressions.drop(ROWS, ["x"]), "drop: there is no column 'x'"),
        (lambda: expressions.drop(ROWS, [5]), "5 is not a column name"),  # type: ignore[list-item]
        (lambda: expressions.drop(ROWS, ROWS.names), "no column would be left"),
        (lambda: expressions.rename(ROWS, {}), "give the new names by the old ones"),
        (lambda: expressions.rename(ROWS, {"users": "x"}), "rename: there is no column 'users'.*Did you mean 'user'"),
        (lambda: expressions.rename(ROWS, {"user": "net"}), "two columns 'net'"),
    ],
)
def test_mistakes_are_told_at_once(make: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make()
