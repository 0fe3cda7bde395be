"""Table functions written in Python, called with the values of each row."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, Final

import cloudpickle
import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from snapline.errors import UserCodeError
from snapline.operators.row_batches import raised
from snapline.spark.data_source_types import RowConverter, rows_of
from snapline.sql.expressions.compiler import Program
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.plans.trees import Attribute, Expression
from snapline.text import shortened

_KINDS: Final = (300, 301)
"""Functions of the values of a row; with the second, Spark sends them as Arrow, which changes nothing here."""


class UdtfRows:
    """A `PythonUDTF` over batches whose columns are `attributes`.

    There is one instance of the user's class, whose `eval` is called for each row; a table as its argument is given as
    a row. Raises `UnsupportedError` for what has no meaning here: partitions of a table, or a method `terminate`, since
    a stream has no end to call it at.
    """

    def __init__(self, expression: Expression, attributes: Sequence[Attribute], *, outer: bool = False) -> None:
        arguments = expression.arguments
        self._name = arguments["name"]
        self._handler = udtf_class(expression)
        self._analysis = arguments.get("pickledAnalyzeResult")
        self._outer = outer
        given = [(_name(child), _value(child)) for child in expression.children]
        self._names = [name for name, _ in given]
        self._program = Program([value for _, value in given], attributes)
        self._given = pa.schema([pa.field(f"_{n}", value.type) for n, (_, value) in enumerate(given)])
        self._given_struct = from_arrow_schema(self._given, prefer_timestamp_ntz=True)
        kind = arguments["elementSchema"]
        self._result = pa.schema([kind.field(n) for n in range(kind.num_fields)])
        struct = from_arrow_schema(self._result, prefer_timestamp_ntz=True)
        self._converter = RowConverter(self._result, struct, f"the table function {self._name}")
        self._instance: Any = None

    def generate(self, batch: pa.RecordBatch) -> tuple[pa.Array, list[pa.Array]]:
        """The number of the row that each new row comes from, and the new columns."""
        if self._instance is None:
            self._instance = self._made()
        rows: list[int] = []
        made: list[Any] = []
        for number, values in enumerate(self._values(batch)):
            found = self._called(values)
            if not found and self._outer:
                found = [(None,) * len(self._result)]
            rows += [number] * len(found)
            made += found
        if not made:
            return pa.array([], pa.int64()), [pa.array([], field.type) for field in self._result]
        return pa.array(np.array(rows, dtype=np.int64)), self._converter.batch(made).columns

    def _values(self, batch: pa.RecordBatch) -> Sequence[Sequence[Any]]:
        if not len(self._given):
            return [()] * batch.num_rows
        return rows_of(pa.RecordBatch.from_arrays(self._program.arrays(batch), schema=self._given), self._given_struct)

    def _called(self, values: Sequence[Any]) -> list[Any]:
        named = {name: value for name, value in zip(self._names, values, strict=True) if name}
        plain = [value for name, value in zip(self._names, values, strict=True) if not name]
        try:
            given = self._instance.eval(*plain, **named)
            found = [] if given is None else list(given)
        except Exception as error:
            where = f", for the row {shortened(tuple(values))}"
            raise raised(f"the table function {self._name}", error, where) from error
        for row in found:
            if not isinstance(row, tuple | list):
                raise UserCodeError(
                    f"the table function {self._name} gave {shortened(row)}; it must give tuples with a value for each "
                    "column"
                )
        return found

    def _made(self) -> Any:
        try:
            if self._analysis is not None and len(inspect.getfullargspec(self._handler).args) == 2:
                return self._handler(dataclasses.replace(cloudpickle.loads(bytes(self._analysis))))
            return self._handler()
        except Exception as error:
            raise raised(f"the table function {self._name}", error) from error


def udtf_class(expression: Expression) -> Any:
    """The user's class. Raises `UnsupportedError` if it does not run here."""
    name, kind = expression.arguments["name"], expression.arguments["evalType"]
    if kind not in _KINDS:
        raise UnsupportedError(f"the table function {name} takes Arrow batches of many rows")
    if expression.arguments.get("pythonUDTFPartitionColumnIndexes") is not None:
        raise UnsupportedError(f"the table function {name} takes partitions of a table, which a stream never has whole")
    handler = cloudpickle.loads(expression.arguments["func"].command)
    if not isinstance(handler, type):
        raise UnsupportedError(f"the table function {name} is larger than 1 MB; let it load its data when it is made")
    if hasattr(handler, "terminate"):
        raise UnsupportedError(f"the table function {name} has a method terminate, and a stream has no end")
    return handler


def _name(argument: Expression) -> str | None:
    return argument.arguments["key"] if argument.kind == "NamedArgumentExpression" else None


def _value(argument: Expression) -> Expression:
    return argument.children[0] if argument.kind == "NamedArgumentExpression" else argument
