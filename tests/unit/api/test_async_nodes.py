"""`async_map`: its schema, and wrong use is reported at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError

SCHEMA = pa.schema([("n", pa.int64())])


class Client(sl.AsyncFunction):
    async def ask(self, row: dict[str, Any]) -> Any:
        return row


async def same(row: dict[str, Any]) -> dict[str, Any]:
    return row


def asked(function: Any = same, *, schema: Any = SCHEMA, **options: Any) -> sl.Stream:
    rows = sl.Job("test").source(sl.sources.Rate(rows=1), "rows")
    return rows.async_map(function, schema=schema, uid="asked", **options)


def test_rows_in_flight_are_state() -> None:
    for function in (same, Client(), lambda row: row):
        node = asked(function)._inputs[0].node
        assert (node.schema, node.has_state) == (SCHEMA, True)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"function": 5}, r"async_map\(5\): give an async function of a row"),
        ({"function": Client}, "an instance of a subclass of snapline.AsyncFunction"),
        ({"capacity": 0}, "capacity=0: too small; use at least 1"),
        ({"function": print, "capacity": 5000}, "capacity=5000: too large; use at most 1000"),
        ({"retries": -1}, "retries=-1: too small; use at least 0"),
        ({"timeout": 0}, "async_map: timeout=0: must be longer than nothing"),
        ({"timeout": 5}, "a bare number has no unit"),
        ({"on_timeout": 5}, "on_timeout=5; give a function"),
        ({"schema": "nothing"}, r"the schema of async_map\(\)"),
    ],
)
def test_mistakes_are_told_at_once(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        asked(**options)
