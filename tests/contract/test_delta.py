"""Delta tables keep the contracts of sinks and sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import snapline as sl
from snapline.testing import SinkContract, SourceContract

pytestmark = pytest.mark.slow


class _OfDelta(SinkContract):
    def visible_numbers(self, directory: Path) -> Iterable[int]:
        path = str(directory / "table")
        if not deltalake.DeltaTable.is_deltatable(path):
            return []
        numbers: list[int] = deltalake.DeltaTable(path).to_pyarrow_table()["x"].to_pylist()
        return numbers


class TestAppend(_OfDelta):
    def make_sink(self, directory: Path) -> sl.Sink:
        return sl.sinks.Delta(directory / "table", max_file_size=20_000)


class TestPartitioned(_OfDelta):
    def make_sink(self, directory: Path) -> sl.Sink:
        return sl.sinks.Delta(directory / "table", partition_by=["rest"])

    def batch(self, numbers: Sequence[int]) -> pa.RecordBatch:
        values = pa.array(numbers, pa.int64())
        return pa.record_batch([values, pa.array([x % 3 for x in numbers], pa.int32())], names=["x", "rest"])


class TestUpsert(_OfDelta):
    def make_sink(self, directory: Path) -> sl.Sink:
        return sl.sinks.Delta(directory / "table", mode="upsert", key="x")


def _rows(start: int, end: int) -> pa.Table:
    numbers = list(range(start, end))
    return pa.table({"x": numbers, "text": [str(x) for x in numbers], "rest": [f"r {x % 3}" for x in numbers]})


class TestSource(SourceContract):
    def make_source(self, directory: Path) -> sl.Source:
        deltalake.write_deltalake(directory, _rows(0, 1000), partition_by=["rest"])
        deltalake.write_deltalake(directory, _rows(1000, 1500), mode="append")
        return sl.sources.Delta(directory)

    def expected_rows(self) -> pa.Table:
        return _rows(0, 1500)


class TestFollowed(SourceContract):
    quiet_s = 0.1

    def make_source(self, directory: Path) -> sl.Source:
        deltalake.write_deltalake(directory, _rows(0, 100))
        source = sl.sources.Delta(directory, follow=True, poll="10ms")
        for start in range(100, 400, 100):
            deltalake.write_deltalake(directory, _rows(start, start + 100), mode="append")
        return source

    def expected_rows(self) -> pa.Table:
        return _rows(0, 400)


class TestFiltered(SourceContract):
    def make_source(self, directory: Path) -> sl.Source:
        deltalake.write_deltalake(directory, _rows(0, 500), partition_by=["rest"])
        return sl.sources.Delta(directory, columns=["x"], filter=[("rest", "=", "r 1"), ("x", "<", 400)])

    def expected_rows(self) -> pa.Table:
        return pa.table({"x": [x for x in range(400) if x % 3 == 1]})
