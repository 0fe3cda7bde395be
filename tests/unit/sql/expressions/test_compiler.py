from __future__ import annotations

import inspect
import pkgutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.expression_kit import call, column, condition, literal, values

from snapline.sql import expressions
from snapline.sql.expressions import compiler
from snapline.sql.expressions.compiler import Program
from snapline.sql.expressions.registry import ARGUMENT_ORDERS, KERNELS, UnsupportedError
from snapline.sql.plans.trees import Attribute

INT, TEXT = pa.int32(), pa.string()


def test_what_occurs_twice_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def make(_expression: object) -> object:
        def compute(given: list[pa.Array], rows: int) -> pa.Array:
            runs.append(rows)
            return given[0]

        return compute

    monkeypatch.setitem(KERNELS, "Counted", make)
    monkeypatch.setitem(ARGUMENT_ORDERS, "Counted", ())
    counted = call("Counted", INT, column(0, INT))
    program = Program([call("Add", INT, counted, counted, evalMode="ANSI"), counted], [Attribute(0, "a", INT)])
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2], INT)], names=["a"])
    assert [array.to_pylist() for array in program.arrays(batch)] == [[2, 4], [1, 2]]
    assert runs == [2]


def test_unknown_expressions_are_refused_with_their_text() -> None:
    with pytest.raises(UnsupportedError, match="Unheard"):
        Program([call("Unheard", INT)], [])


def test_a_batch_without_rows() -> None:
    quotient = call("Divide", pa.float64(), literal(1.0, pa.float64()), column(0, pa.float64()), evalMode="ANSI")
    assert values(quotient, pa.array([], pa.float64())) == []


def test_all_modules_with_kernels_are_imported() -> None:
    folder = Path(expressions.__path__[0])
    entering = {
        module.name
        for module in pkgutil.iter_modules(expressions.__path__)
        if any(mark in folder.joinpath(f"{module.name}.py").read_text() for mark in ("\n@kernel(", "\n@form("))
    }
    imported = {name for name, value in vars(compiler).items() if inspect.ismodule(value)}
    assert entering == {name for name in imported if hasattr(expressions, name)}


@pytest.mark.parametrize("kind", ["BinaryPredicate", "Encode", "ParseUrl"])
def test_some_functions_compute_all_arguments_even_after_a_null(kind: str) -> None:
    type, gives = {"BinaryPredicate": (pa.binary(), pa.bool_()), "Encode": (TEXT, pa.binary())}.get(kind, (TEXT, TEXT))
    lists = pa.array([[]], pa.list_(type))
    item = call("ElementAt", type, column(1, lists.type), literal(1, INT), failOnError=True)
    function = call(kind, gives, column(0, type), item, prettyName="contains", failOnError=True)
    assert condition(function, pa.array([None], type), lists) == "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"


def test_constants_are_not_computed_where_no_row_needs_them() -> None:
    number = call("Cast", INT, literal("", TEXT), evalMode="ANSI", timeZoneId="UTC")
    total = call("Add", INT, column(0, INT), number, evalMode="ANSI")
    assert values(total, pa.array([None], INT)) == [None]
    assert condition(total, pa.array([1], INT)) == "CAST_INVALID_INPUT"
