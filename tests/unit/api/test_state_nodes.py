"""`map_with_state` and `update_state`: their operators, and wrong use is reported at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.operators.state_functions import MapColumnsWithState, MapWithState, UpdateState

ROWS = pa.schema([("user", pa.string()), ("value", pa.int64())])


def keyed() -> sl.KeyedStream:
    return sl.Job("states").source(sl.sources.Generate(lambda start, count: None, schema=ROWS), "rows").key_by("user")


def added(state: Any, row: Any) -> Any:
    return state, row


def mapped(
    function: Any = added,
    *,
    state: Any = int,
    schema: Any = "user STRING, n BIGINT",
    columns: Any = None,
    ttl: Any = None,
) -> sl.Stream:
    return keyed().map_with_state(function, state=state, schema=schema, columns=columns, ttl=ttl)


def test_columns_choose_the_operator() -> None:
    schema = pa.schema([("user", pa.string()), ("n", pa.int64())])
    for stream, kind in (
        (mapped(), MapWithState),
        (mapped(columns=("value",)), MapColumnsWithState),
        (keyed().update_state(print, state=int, schema=schema, ttl="1h"), UpdateState),
    ):
        assert type(stream._inputs[0].node.operator) is kind
        assert stream.schema == schema


def test_update_state_takes_a_function() -> None:
    wrong: Any = 5
    with pytest.raises(ConfigurationError, match=r"update_state\(5\): give a function"):
        keyed().update_state(wrong, state=int, schema="n BIGINT")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"function": 5}, r"map_with_state\(5\): give a function"),
        ({"state": "flaot"}, "map_with_state: state='flaot'"),
        ({"state": "float"}, "would be rounded at every batch boundary; declare floats as double"),
        ({"state": "a STRING, b ARRAY<FLOAT>"}, "declare floats as double"),
        ({"ttl": 5}, "map_with_state: .*a bare number has no unit"),
        ({"columns": "value"}, r"give a list of names, such as \['value'\]"),
        ({"columns": ("valeu",)}, "no column 'valeu'; .*Did you mean 'value'"),
        ({"columns": ("value",), "schema": "user STRING"}, "has only key columns"),
        ({"schema": None}, r"the schema of map_with_state\(\) is None"),
    ],
)
def test_mistakes_are_told_at_once(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        mapped(**options)
