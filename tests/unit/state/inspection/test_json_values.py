"""Arrow values as JSON."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from snapline.state.inspection.json_values import json_of_object, json_of_pickle, json_rows, json_value

MORNING = dt.datetime(2024, 2, 29, 1, 2, 3)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int64(), None, None),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.float64(), 1.5, 1.5),
        (pa.float64(), float("nan"), "nan"),
        (pa.float32(), float("-inf"), "-inf"),
        (pa.float16(), 0.5, 0.5),
        (pa.bool_(), True, True),
        (pa.string(), "ü", "ü"),
        (pa.binary(), b"\x00\xff", {"base64": "AP8="}),
        (pa.decimal128(5, 2), Decimal("1.20"), "1.20"),
        (pa.date32(), MORNING.date(), "2024-02-29"),
        (pa.date64(), MORNING.date(), "2024-02-29"),
        (pa.timestamp("s"), MORNING, "2024-02-29T01:02:03"),
        (pa.timestamp("ms"), -1, "1969-12-31T23:59:59.999"),
        (pa.timestamp("ns"), 1, "1970-01-01T00:00:00.000000001"),
        (pa.timestamp("us", "Europe/Berlin"), 1_500_000, "1970-01-01T00:00:01.500000Z"),
        (pa.timestamp("s"), 2**60, "1152921504606846976s"),
        (pa.time32("s"), 3723, "01:02:03"),
        (pa.time64("ns"), 1, "00:00:00.000000001"),
        (pa.duration("ms"), -1500, "PT-1.5S"),
        (pa.duration("s"), 100, "PT100S"),
        (pa.list_(pa.int8()), [1, None], [1, None]),
        (pa.list_(pa.int8(), 2), [1, 2], [1, 2]),
        (pa.list_view(pa.int8()), [1], [1]),
        (pa.map_(pa.string(), pa.timestamp("ns")), [("a", 0)], [["a", "1970-01-01T00:00:00"]]),
        (pa.struct([("a", pa.binary()), ("b", pa.int8())]), {"a": b"", "b": None}, {"a": {"base64": ""}, "b": None}),
        (pa.struct([]), {}, {}),
        (pa.month_day_nano_interval(), (1, 2, 3), {"months": 1, "days": 2, "nanoseconds": 3}),
        (pa.null(), None, None),
        (pa.uuid(), b"0123456789abcdef", {"base64": "MDEyMzQ1Njc4OWFiY2RlZg=="}),
    ],
    ids=lambda item: str(item) if isinstance(item, pa.DataType) else "",
)
def test_values_of_every_type(kind: pa.DataType, value: Any, expected: Any) -> None:
    found = json_value(pa.array([value], kind)[0])
    assert found == expected
    json.dumps(found, allow_nan=False)


def test_values_behind_other_encodings() -> None:
    assert json_value(pa.array(["a"]).dictionary_encode()[0]) == "a"
    assert json_value(pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([b"x"])])[0]) == {"base64": "eA=="}
    assert json_value(pa.RunEndEncodedArray.from_arrays([2], [5])[1]) == 5


def test_objects_that_json_does_not_know() -> None:
    assert json_of_object({"a": (1, {2})}) == {"a": [1, {"repr": "{2}"}]}
    assert json_of_object({1: 2}) == {"repr": "{1: 2}"}


def test_pickles_are_not_opened_unless_asked() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, ("raise RuntimeError('code ran')",)

    data = pickle.dumps(Bomb())
    assert json_of_pickle(data, unpickle=False) == {"pickle": len(data)}
    assert json_of_pickle(data, unpickle=True) == {"pickle": len(data), "error": "RuntimeError: code ran"}
    assert json_of_pickle(pickle.dumps([1, "a"]), unpickle=True) == [1, "a"]


def test_rows() -> None:
    table = pa.table({"key": ["a", "b"], "value": [pickle.dumps(1), None]})
    assert json_rows(table, frozenset({"value"}), unpickle=True) == [
        {"key": "a", "value": 1},
        {"key": "b", "value": None},
    ]
