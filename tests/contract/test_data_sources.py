"""Data sources of PySpark, as sources and sinks, keep the contracts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.connectors.data_source import sources_kit as kit

import snapline as sl
from snapline.testing import SinkContract, SourceContract

ROWS = 3000
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


def stream(kind: Any, **more: Any) -> Callable[[Path], sl.Source]:
    options = more.pop("options", {})

    def made(directory: Path) -> sl.Source:
        (directory / "available").write_text(str(ROWS))
        given = {"directory": str(directory), **options}
        return sl.sources.DataSource(kind, given, poll_interval="10ms", **more)

    return made


SOURCES: dict[str, Callable[[Path], sl.Source]] = {
    "tuples": stream(kit.Numbers),
    "lists": stream(kit.Numbers, options={"style": "lists"}),
    "rows": stream(kit.Numbers, options={"style": "rows"}),
    "batches": stream(kit.Numbers, options={"style": "batches"}),
    "bounded stream": stream(kit.Numbers, bounded=True),
    "limited": stream(kit.LimitedNumbers),
    "limited and bounded": stream(kit.LimitedNumbers, bounded=True),
    "simple": stream(kit.SimpleNumbers),
    "simple batches": stream(kit.SimpleNumbers, options={"style": "batches"}),
    "simple and bounded": stream(kit.SimpleNumbers, options={"step": str(ROWS)}, bounded=True),
    "reader": stream(kit.BatchNumbers),
}


class TestSources(SourceContract):
    quiet_s = 0.05

    @pytest.fixture(autouse=True, params=SOURCES)
    def _small_reads(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("snapline.connectors.data_source.given_rows.MAX_ROWS", 170)
        self._make = SOURCES[request.param]

    def make_source(self, directory: Path) -> sl.Source:
        return self._make(directory)

    def expected_rows(self) -> pa.Table:
        numbers = list(range(ROWS))
        return pa.table([numbers, list(map(kit.text_of, numbers))], schema=SCHEMA)


class TestOutput(SinkContract):
    keeps_order = False

    @pytest.fixture(autouse=True, params=["rows", "arrow"])
    def _kind(self, request: pytest.FixtureRequest) -> None:
        self._is_arrow = request.param == "arrow"

    def make_sink(self, directory: Path) -> sl.Sink:
        (directory / "out").mkdir()
        options = {"directory": str(directory / "out"), "arrow": self._is_arrow}
        return sl.sinks.DataSource(kit.Output, options, directory=directory / "messages")

    def visible_numbers(self, directory: Path) -> list[int]:
        return kit.output_numbers(directory / "out")


class TestForeachDataFrame(SinkContract):
    """With a table instead of a DataFrame, which needs no Spark."""

    def make_sink(self, directory: Path) -> sl.Sink:
        calls = directory / "calls"
        calls.mkdir()
        self._lineage = 0

        def call(frame: pa.Table, batch_id: int) -> None:
            (calls / f"{len(list(calls.iterdir()))}.json").write_text(json.dumps(frame["x"].to_pylist()))

        sink = sl.sinks.ForeachDataFrame(call, directory / "staged")
        sink.use_session(read_tables, pa.schema([("x", pa.int64())]), None)
        return sink

    def visible_numbers(self, directory: Path) -> list[int]:
        if not (directory / "calls").exists():
            return []
        return [number for path in (directory / "calls").iterdir() for number in json.loads(path.read_text())]


def read_tables(paths: Sequence[str], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([pq.read_table(path, schema=schema) for path in paths])
