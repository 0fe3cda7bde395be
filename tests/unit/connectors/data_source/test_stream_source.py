"""Data sources as sources: which reader is chosen, how ranges are planned, and errors. The contract does the rest."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, type-arg, override"
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, StructField, StructType
from tests.unit.connectors.data_source import sources_kit as kit

import snapline as sl
from snapline.errors import ConfigurationError, RestoreError, UserCodeError


class Both(kit.Numbers, kit.BatchNumbers):
    pass


class Nothing(DataSource):
    def schema(self) -> str:
        return "x INT"


def made(kind: Any, directory: Path, available: int = 1000, **more: Any) -> sl.sources.DataSource:
    (directory / "available").write_text(str(available))
    return sl.sources.DataSource(kind, {"directory": str(directory)}, **more)


def test_the_reader_is_chosen_by_what_there_is_and_what_is_asked_for(tmp_path: Path) -> None:
    stream = made(Both, tmp_path)
    assert (stream.is_bounded, stream.in_step, stream.discovery_interval_ms) == (False, False, 1000)
    batch = made(Both, tmp_path, bounded=True)
    assert (batch.is_bounded, batch.in_step, batch.discovery_interval_ms) == (True, False, None)
    assert len(batch.splits(2)) == 3
    simple = made(kit.SimpleNumbers, tmp_path, bounded=True)
    assert (simple.is_bounded, simple.in_step, simple.splits(2)) == (True, True, [{"start": '{"number": 0}'}])


@pytest.mark.parametrize(
    ("kind", "more", "says"),
    [
        (
            Nothing,
            {},
            r"DataSource\(Nothing\) has no method reader\(\), streamReader\(\) or simpleStreamReader\(\)",
        ),
        (kit.BatchNumbers, {"bounded": False}, r"has no method streamReader\(\) or simpleStreamReader\(\); implement"),
        (kit.Output, {"schema": "x INT"}, "has no method reader"),
        (kit.Numbers, {"poll_interval": 0}, "poll_interval=0: use more"),
        (kit.Numbers, {"schema": "x NOTHING"}, "the schema of sources.DataSource"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, kind: Any, more: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        made(kind, tmp_path, **more)


def test_without_a_schema_of_its_own_one_is_asked_for(tmp_path: Path) -> None:
    class Unknown(kit.Numbers):
        schema = DataSource.schema  # type: ignore[assignment]

    with pytest.raises(ConfigurationError, match=r"schema\(\) raised .*implement schema\(\), or give schema="):
        made(Unknown, tmp_path)
    given = StructType([StructField("number", IntegerType(), False)])
    assert made(Unknown, tmp_path, schema=given).schema == pa.schema([pa.field("number", pa.int32(), False)])


def test_ranges_are_planned_from_where_the_last_one_ended(tmp_path: Path) -> None:
    source = made(kit.Numbers, tmp_path, 1200)
    splits, known = source.discover(None)
    assert [cloudpickle.loads(split["partition"]) for split in splits] == [
        kit.Range(0, 500),
        kit.Range(500, 1000),
        kit.Range(1000, 1200),
    ]
    assert source.discover(known) == ([], known)
    (tmp_path / "available").write_text("1300")
    again = made(kit.Numbers, tmp_path, 1300)
    splits, known = again.discover(known)
    assert [(split["number"], cloudpickle.loads(split["partition"])) for split in splits] == [
        (3, kit.Range(1200, 1300))
    ]
    again.all_read(known)
    again.all_read(known)
    assert kit.heard(tmp_path / "committed") == [{"number": 1300}]


def test_a_reader_with_a_limit_catches_up_in_several_ranges(tmp_path: Path) -> None:
    source = made(kit.LimitedNumbers, tmp_path, 10_000)
    splits, known = source.discover(None)
    assert [cloudpickle.loads(split["partition"]).end for split in splits] == list(range(300, 5000, 300))
    splits, known = source.discover(known)
    splits, known = source.discover(known)
    assert cloudpickle.loads(splits[-1]["partition"]).end == 10_000
    assert source.discover(known)[0] == []


def test_a_bounded_reader_must_come_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapline.connectors.data_source.stream_source._MAX_BOUNDED_RANGES", 3)
    source = made(kit.LimitedNumbers, tmp_path, 10_000, bounded=True)
    with pytest.raises(UserCodeError, match="still rises after 3 ranges; with bounded=True it must stop"):
        source.splits(1)


@pytest.mark.parametrize(
    ("method", "gives", "says"),
    [
        ("initialOffset", [1], r"initialOffset\(\) gave \[1\]; an offset is a dict"),
        ("initialOffset", {"a": {1, 2}}, "which is not JSON"),
        ("latestOffset", None, r"latestOffset\(\) gave None"),
        ("partitions", [1, 2], r"partitions\(\) gave 1; it must give a list of InputPartition"),
        ("partitions", [InputPartition(lambda: iter(()))], None),
        ("initialOffset", RuntimeError("not now"), r"initialOffset\(\) raised RuntimeError: not now"),
        ("latestOffset", RuntimeError("not now"), r"latestOffset\(\) raised RuntimeError: not now"),
        ("partitions", RuntimeError("not now"), r"partitions\(\) raised RuntimeError: not now"),
    ],
)
def test_errors_name_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, gives: Any, says: str | None
) -> None:
    source = made(kit.Numbers, tmp_path)

    def call(self: Any, *arguments: Any) -> Any:
        if isinstance(gives, Exception):
            raise gives
        return gives

    replaced = (lambda self: call(self)) if method != "partitions" else call
    monkeypatch.setattr(kit.NumberStream, method, replaced)
    if says is None:
        assert len(source.discover(None)[0]) == 1, "cloudpickle takes it"
        return
    with pytest.raises(UserCodeError, match=says):
        source.discover(None)


def test_one_partition_is_read_where_none_are_given(tmp_path: Path) -> None:
    class Whole(DataSource):
        def schema(self) -> str:
            return "x INT"

        def reader(self, schema) -> DataSourceReader:
            return WholeReader()

    class WholeReader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return []

        def read(self, partition: InputPartition) -> Iterator[Any]:
            assert partition.value is None
            yield (1,)

    source = sl.sources.DataSource(Whole)
    (split,) = source.splits(4)
    reader = source.reader(sl.ReaderContext("job", "it", 0, 1))
    reader.add_split(split, None)
    batch = reader.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == [{"x": 1}]
    assert reader.read() is None


@pytest.mark.parametrize("kind", [kit.Numbers, kit.SimpleNumbers])
def test_splits_of_another_source_are_refused(tmp_path: Path, kind: Any) -> None:
    reader = made(kind, tmp_path).reader(sl.ReaderContext("job", "it", 0, 1))
    with pytest.raises(RestoreError, match="is not a split of"):
        reader.add_split([0, 10], None)
