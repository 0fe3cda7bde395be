"""Every committing sink that comes with Snapline keeps the contract of sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa
import pytest

import snapline as sl
from snapline.testing import SinkContract


class Outside(Protocol):
    """A sink, and what everybody outside can see of its rows."""

    sink: sl.Sink

    def seen(self) -> list[int]: ...


class OfFiles:
    def __init__(self, directory: Path, format: str) -> None:
        self.sink: sl.Sink = sl.sinks.Files(directory / "out", format=format, max_file_size=200)
        self._directory = directory / "out"

    def seen(self) -> list[int]:
        if not self._directory.exists():  # the first writer makes it
            return []
        table = sl.sinks.read_files(self._directory)
        return sorted(table.column("x").to_pylist()) if table.num_columns else []


class OfCollect:
    def __init__(self, directory: Path) -> None:
        self._collect = sl.sinks.Collect(directory / "out")
        self.sink: sl.Sink = self._collect

    def seen(self) -> list[int]:
        return sorted(self._collect.table().column("x").to_pylist())


class OnceById:
    """What a function outside may look like: it keeps the ids with the rows."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, table: pa.Table, commit_id: str) -> None:
        path = self._directory / commit_id.replace("/", "_")
        if not path.exists():
            path.write_bytes(msgspec.msgpack.encode(table.column("x").to_pylist()))


class OfForeachBatch:
    def __init__(self, directory: Path) -> None:
        self.sink: sl.Sink = sl.sinks.ForeachBatch(OnceById(directory))
        self._directory = directory

    def seen(self) -> list[int]:
        return sorted(x for path in self._directory.iterdir() for x in msgspec.msgpack.decode(path.read_bytes()))


SINKS: dict[str, Callable[[Path], Outside]] = {
    "parquet": lambda directory: OfFiles(directory, "parquet"),
    "csv": lambda directory: OfFiles(directory, "csv"),
    "jsonl": lambda directory: OfFiles(directory, "jsonl"),
    "arrow": lambda directory: OfFiles(directory, "arrow"),
    "collect": OfCollect,
    "foreach batch": OfForeachBatch,
}


class TestSinks(SinkContract):
    @pytest.fixture(autouse=True, params=SINKS)
    def _outside(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self._made = SINKS[request.param](tmp_path)

    def make_sink(self, directory: Path) -> sl.Sink:
        return self._made.sink

    def visible_numbers(self, directory: Path) -> list[int]:
        return self._made.seen()
