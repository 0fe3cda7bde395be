"""Null keys are groups of their own."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.operators.null_keys import (
    MARK,
    MarkNullKeys,
    RestoreNullKeys,
    marked,
    marked_schema,
    unmarked,
    unmarked_key,
)
from snapline.testing import ThreadCluster

NOON = datetime.datetime(2026, 1, 1, 12)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 0], pa.int32()),
        pa.array([1.5, None, 0.0]),
        pa.array([True, None, False]),
        pa.array(["x", None, ""]),
        pa.array([b"x", None, b""]),
        pa.array([NOON.date(), None, datetime.date(1970, 1, 1)]),
        pa.array([NOON, None, datetime.datetime(1970, 1, 1)], pa.timestamp("us")),
        pa.array([NOON, None, datetime.datetime(1970, 1, 1)], pa.timestamp("ms", "UTC")),
    ],
    ids=lambda values: str(values.type),
)
def test_nulls_are_filled_marked_and_restored(values: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), values], names=["n", "key"])
    given = marked(batch, ["n", "key"])
    assert given.column(MARK).to_pylist() == [0, 2, 0]
    assert not given.column("key").null_count
    assert given.column("key")[1] == values[2]  # its default, which is told apart by the mark
    assert unmarked(given, ["n", "key"]).equals(batch)


def test_rows_without_nulls_pass_unchanged() -> None:
    batch = pa.RecordBatch.from_pydict({"key": ["x"], "n": [1]})
    assert unmarked(marked(batch, ["key"]), ["key"]).equals(batch)


def test_dictionaries_are_decoded() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["x", None]).dictionary_encode()], names=["key"])
    assert unmarked(marked(batch, ["key"]), ["key"]).column("key").to_pylist() == ["x", None]


def test_single_keys_are_restored() -> None:
    assert unmarked_key(("", 5, 1)) == (None, 5)
    assert unmarked_key(("x", 5, 0)) == ("x", 5)
    assert unmarked_key((0, 0, 3)) == (None, None)


def test_the_name_of_the_mark_is_reserved() -> None:
    batch = pa.RecordBatch.from_pydict({MARK: [1]})
    with pytest.raises(ConfigurationError, match="is reserved"):
        marked(batch, [MARK])
    wide = pa.RecordBatch.from_pydict({f"c{number}": [1] for number in range(63)})
    with pytest.raises(ConfigurationError, match="63 key columns are too many"):
        marked(wide, wide.schema.names)


def test_a_group_by_has_a_row_for_null_keys() -> None:
    rows: list[dict[str, Any]] = [{"key": key, "n": n} for key, n in (("x", 1), (None, 2), ("", 3), (None, 4))]
    job = sl.Job("nulls", parallelism=2)
    stream = job.source(sl.sources.Iterator(rows, schema="key STRING, n BIGINT"), uid="rows")
    schema = marked_schema(stream.schema, ["key"])
    keyed = stream.apply(MarkNullKeys(["key"]), schema=schema).key_by("key", MARK)
    sums = keyed.aggregate(total=sl.sum("n"), uid="sums")
    restored = sums.apply(RestoreNullKeys(["key"]), schema=sums.schema.remove(sums.schema.get_field_index(MARK)))
    latest = {row["key"]: row["total"] for row in restored.collect(ThreadCluster()).to_pylist()}
    assert latest == {"x": 1, None: 6, "": 3}
