"""Every format in which functions of batches take and return rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from snapline.api.transform_nodes import inferred_schema
from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.batch_formats import make_format
from snapline.operators.transforms import Filter, MapBatches

BATCH = pa.record_batch({"a": pa.array([1, 2, None, 4]), "b": ["w", "x", "y", "z"]})
Run = Callable[..., Any]


def mapped(
    run: Run, function: Callable[[Any], Any], schema: pa.Schema = BATCH.schema, format: str = "arrow"
) -> list[pa.RecordBatch]:
    harness = run(MapBatches(function, schema, make_format(format, "map_batches")))
    harness.open().process(BATCH, 0)
    result: list[pa.RecordBatch] = harness.emitted
    return result


@pytest.mark.parametrize("format", ["arrow", "pandas", "polars", "rows"])
def test_batches_come_back_as_they_were_in_every_format(run: Run, format: str) -> None:
    assert pa.concat_batches(mapped(run, lambda data: data, format=format)) == BATCH
    assert mapped(run, lambda _: None, format=format) == []


def test_data_frames_and_lists_of_rows(run: Run) -> None:
    schema = pa.schema([("b", pa.string()), ("n", pa.int64())])
    (batch,) = mapped(run, lambda frame: frame.assign(n=frame.a.fillna(0) * 2)[["b", "n"]], schema, "pandas")
    assert batch.column("n").to_pylist() == [2, 4, 0, 8]
    several = mapped(run, lambda frame: (frame[["b"]].assign(n=n) for n in range(2)), schema, "pandas")
    assert [batch.column("n").to_pylist() for batch in several] == [[0] * 4, [1] * 4]

    def with_polars(frame: Any) -> Any:
        return frame.with_columns(n=frame["a"].fill_null(0) * 2).drop("a")

    (batch,) = mapped(run, with_polars, schema, "polars")
    assert batch.to_pylist()[3] == {"b": "z", "n": 8}
    (batch,) = mapped(
        run, lambda rows: ({"b": row["b"], "n": number} for number, row in enumerate(rows)), schema, "rows"
    )
    assert batch.column("n").to_pylist() == [0, 1, 2, 3]


def test_columns_of_pandas_may_come_in_several_chunks_or_in_none(run: Run) -> None:
    pandas = pytest.importorskip("pandas")

    def twice(frame: Any) -> Any:
        return pandas.concat([frame, frame])

    def initials(frame: Any) -> Any:
        return frame.assign(b=frame["b"].str[:1])

    schema = BATCH.schema
    given = mapped(run, twice, schema, "pandas")
    assert pa.concat_batches(given).to_pylist() == BATCH.to_pylist() * 2
    assert pa.concat_batches(mapped(run, initials, schema, "pandas")).column("b").to_pylist() == [
        None if value is None else value[:1] for value in BATCH.column("b").to_pylist()
    ]
    for function in (twice, initials):
        # Without rows too: that is how the schema is told.
        assert inferred_schema(function, schema, make_format("pandas", "map_batches")) == schema


@pytest.mark.parametrize(
    ("format", "predicate"),
    [
        ("pandas", lambda frame: frame.a > 1),
        ("polars", lambda frame: frame["a"] > 1),
        ("rows", lambda rows: [None] * 4),
    ],
)
def test_filters_in_every_format(run: Run, format: str, predicate: Any) -> None:
    harness = run(Filter(predicate, make_format(format, "filter")))
    harness.open().process(BATCH, 0)
    assert [row["b"] for row in harness.rows()] == ([] if format == "rows" else ["x", "z"])


@pytest.mark.parametrize(
    ("format", "complaint"),
    [
        ("pandas", "map_batches 'it' raised TypeError: it gave 5; it must return a pandas.DataFrame, None, or several"),
        ("polars", "must return a polars.DataFrame"),
        ("rows", "must return a list of dicts"),
    ],
)
def test_what_is_of_another_format_is_refused(run: Run, format: str, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        mapped(run, lambda _: 5, format=format)


@pytest.mark.parametrize("format", ["pandas", "polars"])
def test_text_bytes_and_lists_keep_their_types(format: str) -> None:
    pytest.importorskip(format)
    nested = pa.struct([("name", pa.string()), ("parts", pa.list_(pa.binary()))])
    schema = pa.schema(
        {
            "text": pa.string(),
            "wide": pa.large_string(),
            "data": pa.binary(),
            "many": pa.list_(pa.string()),
            "nested": nested,
        }
    )
    assert inferred_schema(lambda frame: frame, schema, make_format(format, "map_batches")) == schema


def test_text_that_is_wide_on_purpose_stays_so() -> None:
    schema = pa.schema([("text", pa.string())])
    wide = pa.schema([("text", pa.large_string())])
    assert inferred_schema(lambda batch: batch.cast(wide), schema, make_format("arrow", "map_batches")) == wide


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="map_batches: format='csv'; use one of 'arrow', 'pandas'"):
        make_format("csv", "map_batches")
