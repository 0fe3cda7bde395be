"""The source and the sink of docs/own-connectors.md are short, and keep the contracts."""

from __future__ import annotations

import ast
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.docs_pages import blocks

import snapline as sl
from snapline.testing import SinkContract, SourceContract

PAGE = "own-connectors.md"
MAX_LINES = 39
SUITE = {
    "Lines": ["Lines", "LinesReader"],
    "Table": ["Table", "TableWriter"],
    "Batches": ["Batches", "BatchesWriter", "BatchesCommitter"],
}


def classes() -> dict[str, tuple[ast.ClassDef, str]]:
    found = {}
    for block in blocks(PAGE):
        for node in ast.parse(block.code).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = (node, ast.get_source_segment(block.code, node) or "")
    return found


def from_page() -> dict[str, Any]:
    namespace: dict[str, Any] = {"os": os, "sqlite3": sqlite3, "pa": pa, "sl": sl, "__name__": "own_connectors"}
    for names in SUITE.values():
        for name in names:
            exec(compile(classes()[name][1], "own-connectors.md", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("connector", ["Lines", "Table"])
def test_it_is_short(connector: str) -> None:
    lines = sum(len(classes()[name][1].splitlines()) for name in SUITE[connector])
    between = 2 * (len(SUITE[connector]) - 1)
    assert lines + between <= MAX_LINES


class TestLines(SourceContract):
    def make_source(self, directory: Path) -> sl.Source:
        for name in "ab":
            (directory / name).write_text("".join(f"{name} {number}\n" for number in range(20_000)))
        source: sl.Source = from_page()["Lines"](directory / "a", directory / "b")
        return source

    def expected_rows(self) -> pa.Table:
        return pa.table({"line": [f"{name} {number}" for name in "ab" for number in range(20_000)]})


class TestTable(SinkContract):
    keeps_order = True

    def make_sink(self, directory: Path) -> sl.Sink:
        sink: sl.Sink = from_page()["Table"](directory / "lines.db")
        return sink

    def visible_numbers(self, directory: Path) -> list[int]:
        if not (directory / "lines.db").exists():
            return []
        with closing(sqlite3.connect(directory / "lines.db")) as database:
            return [int(line) for (line,) in database.execute("select line from lines order by rowid")]


class TestBatches(SinkContract):
    def make_sink(self, directory: Path) -> sl.Sink:
        sink: sl.Sink = from_page()["Batches"](directory / "out")
        return sink

    def visible_numbers(self, directory: Path) -> list[int]:
        out = directory / "out"
        paths = [path for path in out.iterdir() if path.suffix != ".tmp"] if out.exists() else []
        return [int(line) for path in paths for line in path.read_text().split()]
