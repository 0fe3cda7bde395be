"""Data sources as users write them for PySpark, with what they hold in a directory."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, type-arg, override"
from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)


def said(path: Path, line: Any) -> None:
    """Add a line to a file, whole, from any process."""
    descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, f"{json.dumps(line)}\n".encode())
    os.close(descriptor)


def heard(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def offer(directory: Path, numbers: int) -> None:
    """So many numbers are available from now on."""
    hidden = directory / ".available"
    hidden.write_text(str(numbers))
    hidden.replace(directory / "available")


@dataclass
class Range(InputPartition):
    start: int
    end: int


class Numbers(DataSource):
    """Rows with the numbers below that in the file `available`, which may grow. Notes what is committed."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number BIGINT, text STRING"

    def streamReader(self, schema) -> DataSourceStreamReader:
        return NumberStream(self.options)


class NumberStream(DataSourceStreamReader):
    def __init__(self, options) -> None:
        self.directory = Path(options["DIRECTORY"])
        self.step = int(options.get("step", "500"))
        self.style = options.get("style", "tuples")

    def initialOffset(self) -> dict:
        return {"number": 0}

    def latestOffset(self) -> dict:
        return {"number": int((self.directory / "available").read_text())}

    def partitions(self, start: dict, end: dict) -> list[Range]:
        first, last = start["number"], end["number"]
        return [Range(at, min(at + self.step, last)) for at in range(first, last, self.step)]

    def read(self, partition: Range) -> Iterator[Any]:
        yield from STYLES[self.style](partition.start, partition.end)

    def commit(self, end: dict) -> None:
        said(self.directory / "committed", end)


def text_of(number: int) -> str | None:
    return None if number % 7 == 0 else f"row {number}"


def tuples(start: int, end: int) -> Iterator[Any]:
    for number in range(start, end):
        yield (number, text_of(number))


def lists(start: int, end: int) -> Iterator[Any]:
    for number in range(start, end):
        yield [number, text_of(number)]


def named(start: int, end: int) -> Iterator[Any]:
    for number in range(start, end):
        yield Row(text=text_of(number), number=number)


def batches(start: int, end: int) -> Iterator[Any]:
    for at in range(start, end, 130):
        numbers = range(at, min(at + 130, end))
        yield pa.record_batch({"number": list(numbers), "text": pa.array(map(text_of, numbers), pa.string())})


def slow(start: int, end: int) -> Iterator[Any]:
    for row in tuples(start, end):
        time.sleep(0.001)
        yield row


STYLES = {"tuples": tuples, "lists": lists, "rows": named, "batches": batches, "slow": slow}


class LimitedNumbers(Numbers):
    """With a limit on each range, and an end for bounded reading."""

    def streamReader(self, schema) -> DataSourceStreamReader:
        return LimitedStream(self.options)


class LimitedStream(NumberStream):
    target: int | None = None

    def getDefaultReadLimit(self):
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(300)

    def latestOffset(self, start: dict, limit) -> dict:
        there = super().latestOffset()["number"] if self.target is None else self.target
        most = getattr(limit, "max_rows", there)
        return {"number": min(there, start["number"] + most)}

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = super().latestOffset()["number"]


class SimpleNumbers(DataSource):
    @classmethod
    def name(cls) -> str:
        return "simple_numbers"

    def schema(self) -> str:
        return "number BIGINT, text STRING"

    def simpleStreamReader(self, schema) -> SimpleDataSourceStreamReader:
        return SimpleStream(self.options)


class SimpleStream(SimpleDataSourceStreamReader):
    def __init__(self, options) -> None:
        self.directory = Path(options["directory"])
        self.step = int(options.get("step", "700"))
        self.style = options.get("style", "tuples")

    def initialOffset(self) -> dict:
        return {"number": 0}

    def read(self, start: dict) -> tuple[Iterator[Any], dict]:
        there = int((self.directory / "available").read_text())
        end = {"number": min(there, start["number"] + self.step)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[Any]:
        return STYLES[self.style](start["number"], end["number"])

    def commit(self, end: dict) -> None:
        said(self.directory / "committed", end)


class BatchNumbers(DataSource):
    """A bounded one, whose reader notes something while it plans."""

    def schema(self) -> str:
        return "number BIGINT, text STRING"

    def reader(self, schema) -> DataSourceReader:
        return BatchReader(self.options)


class BatchReader(DataSourceReader):
    offset = 10**9

    def __init__(self, options) -> None:
        self.there = int((Path(options["directory"]) / "available").read_text())

    def partitions(self) -> list[InputPartition]:
        self.offset = 0
        return [InputPartition((at, min(at + 400, self.there))) for at in range(0, self.there, 400)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        start, end = partition.value
        yield from tuples(start + self.offset, end + self.offset)


# Sinks.


@dataclass
class Written(WriterCommitMessage):
    pending: str
    final: str
    rows: int


class Output(DataSource):
    """A file for each call of `write`, hidden until its commit, which renames it: so it is done once."""

    @classmethod
    def name(cls) -> str:
        return "output"

    def streamWriter(self, schema, overwrite: bool) -> DataSourceStreamWriter:
        return ArrowOutput(self.options) if self.options.get("arrow") == "true" else RowOutput(self.options)


class RowOutput(DataSourceStreamWriter):
    def __init__(self, options) -> None:
        self.directory = Path(options["directory"])
        self.column = options.get("column", "x")

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self.written([row[self.column] for row in iterator])

    def written(self, numbers: list[int]) -> Written:
        name = os.urandom(8).hex()
        pending = self.directory / f".{name}"
        pending.write_text(json.dumps(numbers))
        return Written(str(pending), str(self.directory / f"{name}.json"), len(numbers))

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        said(self.directory / ".commits", [batchId, sum(message.rows for message in messages), os.getpid()])
        for message in messages:
            try:
                os.rename(message.pending, message.final)
            except FileNotFoundError:
                assert Path(message.final).exists(), message

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        said(self.directory / ".aborts", [batchId, sum(message.rows for message in messages)])
        for message in messages:
            Path(message.pending).unlink(missing_ok=True)


class ArrowOutput(RowOutput, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.written([number for batch in iterator for number in batch.column(self.column).to_pylist()])


def output_numbers(directory: Path) -> list[int]:
    if not directory.exists():
        return []
    return sorted(number for path in directory.glob("*.json") for number in json.loads(path.read_text()))
