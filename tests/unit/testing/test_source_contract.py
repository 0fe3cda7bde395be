"""The contract of sources notices every way to break it; sources that keep it are in tests/contract."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.testing import SourceContract

SCHEMA = pa.schema([("n", pa.int64())])
BATCHES = 6


class Numbers(sl.Source):
    """Batches 0 to 5 of one split; subclasses break it."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    schema = SCHEMA

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Any]:
        return [0]

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        return NumbersReader(self.fault, context)


class NumbersReader(sl.SourceReader):
    def __init__(self, fault: str, context: sl.ReaderContext) -> None:
        self._fault = fault
        self._context = context
        self._next: int | None = None

    def add_split(self, split: Any, position: Any) -> None:
        self._next = position or 0
        if self._fault == "skips one after a restore" and position:
            self._next += 1
        if self._fault == "knows no position":
            self._next = 0

    def read(self) -> pa.RecordBatch | sl.Wait | None:
        if self._next is None:
            return None
        if self._next == BATCHES:
            if self._fault != "keeps its split":
                self._next = None
            return None
        self._next += 1
        if self._fault == "other columns":
            return pa.record_batch({"m": [self._next]})
        if self._fault == "loses rows in a crowd" and self._context.parallelism == 5 and self._next == 1:
            return pa.record_batch([pa.array([], pa.int64())], schema=SCHEMA)
        return pa.record_batch([pa.array([self._next])], schema=SCHEMA)

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Any, Any]]:
        return [] if self._next is None else [(0, self._next)]


class Contract(SourceContract):
    def __init__(self, fault: str) -> None:
        self.fault = fault

    def make_source(self, directory: Path) -> sl.Source:
        return Numbers(self.fault)

    def expected_rows(self) -> pa.Table:
        return pa.table({"n": range(1, BATCHES + 1)}, schema=SCHEMA)


def suite_of(contract: SourceContract) -> dict[str, Any]:
    return {name: getattr(contract, name) for name in dir(contract) if name.startswith("test_")}


def test_a_right_source_passes(tmp_path: Path) -> None:
    tests = suite_of(Contract("none"))
    assert len(tests) == 6
    for test in tests.values():
        test(tmp_path)


@pytest.mark.parametrize(
    ("fault", "test", "complaint"),
    [
        ("loses rows in a crowd", "every_row_comes_once", r"parallelism 5: 1 rows are missing, such as {'n': 1}"),
        ("keeps its split", "every_row_comes_once", r"positions\(\) must be empty"),
        ("other columns", "every_row_comes_once", "a batch has the schema m: int64"),
        ("skips one after a restore", "any_position_can_be_resumed", "restored behind batch 1: 1 rows are missing"),
        ("knows no position", "any_position_can_be_resumed", "restored behind batch 1: 1 rows came too often"),
        ("knows no position", "splits_can_move_to_more_or_fewer_subtasks", "parallelism 1, then 2: .* came too often"),
    ],
)
def test_a_wrong_source_fails(fault: str, test: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=complaint):
        suite_of(Contract(fault))[f"test_{test}"](tmp_path)


def test_a_source_that_cannot_be_pickled_fails(tmp_path: Path) -> None:
    class Holding(Contract):
        def make_source(self, directory: Path) -> sl.Source:
            source = Numbers("none")
            source.lock = threading.Lock()  # type: ignore[attr-defined]
            return source

    with pytest.raises(TypeError, match="pickle"):
        Holding("none").test_the_source_can_be_pickled(tmp_path)
