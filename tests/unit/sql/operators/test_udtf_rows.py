from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from pyspark.sql.udtf import AnalyzeResult

from snapline.errors import UserCodeError
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.operators.udtf_rows import UdtfRows
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.python_functions import PythonFunction
from snapline.sql.plans.trees import Attribute, Expression

N = Attribute(1, "n", pa.int64())
RESULT = pa.struct([("k", pa.int32()), ("s", pa.string())])


class Repeated:
    def eval(self, n: int | None, mark: str = "-") -> Iterator[Any] | None:
        if n is None:
            return None
        if n < 0:
            raise ValueError("less than nothing")
        return iter([(number, mark * number) for number in range(n)])


def udtf(handler: Any, *children: Expression, **arguments: Any) -> Expression:
    given = {
        "name": "repeated",
        "func": PythonFunction(cloudpickle.dumps(handler), "3.11"),
        "elementSchema": RESULT,
        "evalType": 300,
        **arguments,
    }
    return Expression("PythonUDTF", pa.null(), children or (reference(N),), given, True, "repeated(n)")


def rows(expression: Expression, values: list[int | None], *, outer: bool = False) -> list[tuple[Any, ...]]:
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["n"])
    numbers, columns = UdtfRows(expression, (N,), outer=outer).generate(batch)
    assert [column.type for column in columns] == [pa.int32(), pa.string()]
    return list(zip(numbers.to_pylist(), *(column.to_pylist() for column in columns), strict=True))


def test_a_row_gives_as_many_rows_as_the_function() -> None:
    assert rows(udtf(Repeated), [2, 0, None, 1]) == [(0, 0, ""), (0, 1, "-"), (3, 0, "")]
    assert rows(udtf(Repeated), [0, 1], outer=True) == [(0, None, None), (1, 0, "")]
    assert rows(udtf(Repeated), [0, None]) == []
    assert rows(udtf(Repeated), []) == []


def test_arguments_by_name_and_the_result_of_the_analysis() -> None:
    class Marked:
        def __init__(self, analysis: AnalyzeResult) -> None:
            self._width = len(analysis.schema)

        def eval(self, *, n: int) -> Iterator[Any]:
            yield n, str(self._width)

    analysis = cloudpickle.dumps(
        AnalyzeResult(schema=StructType([StructField("k", IntegerType()), StructField("s", StringType())]))
    )
    named = Expression("NamedArgumentExpression", pa.int64(), (reference(N),), {"key": "n"})
    assert rows(udtf(Marked, named, pickledAnalyzeResult=analysis), [7]) == [(0, 7, "2")]


@pytest.mark.parametrize(("value", "says"), [(-1, r"repeated raised .*less than nothing.*-1"), (1, "tuples")])
def test_errors_name_the_function(value: int, says: str) -> None:
    class Wrong(Repeated):
        def eval(self, n: int | None, mark: str = "-") -> Any:
            return super().eval(n) if n == -1 else ["text"]

    with pytest.raises(UserCodeError, match=says):
        rows(udtf(Wrong), [value])


def test_what_has_no_meaning_here_is_refused() -> None:
    class Ends(Repeated):
        def terminate(self) -> Any:
            return []

    for expression in (
        udtf(Ends),
        udtf(Repeated, evalType=302),
        udtf(Repeated, pythonUDTFPartitionColumnIndexes={"partitionChildIndexes": (0,)}),
        udtf("no class"),
    ):
        with pytest.raises(UnsupportedError):
            UdtfRows(expression, (N,))
