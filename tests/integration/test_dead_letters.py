"""Rows that cannot be read or processed, in whole jobs: errors that show them, and dead letters."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import snapline as sl
from snapline.testing import ABORT, AWAIT_CHECKPOINT, ProcessCluster, ScriptedSource, ThreadCluster

Row = dict[str, Any]
SECRET = "4111-1111"
LINES = [{"line": text} for text in ("1", "2", SECRET, "4", "five")]


def parse(row: Row) -> Row:
    return {"n": int(row["line"])}


def numbers(table: pa.Table) -> list[int]:
    return sorted(table["n"].to_pylist())


def test_bad_rows_go_to_a_sink_and_are_counted_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    job = sl.Job("parse")
    lines = job.source(sl.sources.Iterator(LINES), uid="lines")
    parsed = lines.map(parse, schema="n BIGINT", on_error="dead_letter", uid="parse")
    good, bad = sl.sinks.Collect(), sl.sinks.Collect()
    parsed.sink(good, uid="good")
    parsed.dead_letters.sink(bad, uid="bad")
    handle = job.start(ThreadCluster())
    assert handle.wait() is sl.JobStatus.FINISHED
    assert numbers(good.table()) == [1, 2, 4]
    letters = sorted(bad.table().to_pylist(), key=lambda letter: str(letter["row"]))
    assert [json.loads(letter["row"]) for letter in letters] == [{"line": SECRET}, {"line": "five"}]
    assert {(letter["operator"], letter["error_type"], letter["file"], letter["line"]) for letter in letters} == {
        ("parse", "ValueError", None, None)
    }
    assert letters[1]["error"] == "invalid literal for int() with base 10: 'five'"
    # The figures of tasks that have finished are there too, however short the job was.
    assert sum(task.bad_rows for task in handle.metrics().values()) == 2
    assert sum(task.rows_in for task in handle.metrics().values()) > 0
    events = [text for _, text in handle.events() if "bad rows so far" in text]
    assert len(events) == 1
    assert "map 'parse' raised ValueError: invalid literal" in events[0]
    assert any("bad rows so far: 1" in message for message in caplog.messages)


def test_rows_can_be_dropped_inside_a_chain() -> None:
    job = sl.Job("parse")
    lines = job.source(sl.sources.Iterator(LINES), uid="lines")
    parsed = lines.map(parse, schema="n BIGINT", on_error="drop").map(lambda row: row, schema="n BIGINT")
    assert numbers(parsed.collect(ThreadCluster())) == [1, 2, 4]


def test_dead_letters_that_nobody_reads_are_refused() -> None:
    job = sl.Job("parse")
    parsed = job.source(sl.sources.Iterator(LINES), uid="lines").map(parse, schema="n BIGINT", on_error="dead_letter")
    with pytest.raises(sl.ConfigurationError, match=r"nothing reads its dead letters; write them with \.dead_letters"):
        parsed.collect(ThreadCluster())
    with pytest.raises(sl.ConfigurationError, match="give it on_error='dead_letter'"):
        _ = parsed.map(parse, schema="n BIGINT").dead_letters


def fail(value: Any) -> Any:
    raise ValueError(f"wrong: {value}")


class Failing(sl.ProcessFunction):
    def process(self, row: Row, context: sl.ProcessContext) -> None:
        fail(row)


class FailingLater(sl.ProcessFunction):
    def process(self, row: Row, context: sl.ProcessContext) -> None:
        context.set_event_timer(row["time"])

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        fail(context.key)


class FailingBatch(sl.BatchProcessFunction):
    def process_batch(self, batch: pa.RecordBatch, context: sl.BatchContext) -> None:
        fail(batch.to_pylist())


class FailingSecond(sl.CoProcessFunction):
    def process_first(self, row: Row, context: sl.ProcessContext) -> None: ...

    def process_second(self, row: Row, context: sl.ProcessContext) -> None:
        fail(row)


class FailingSum:
    def create(self) -> str:
        return ""

    def add(self, accumulator: str, value: str) -> Any:
        return fail(value)

    def merge(self, accumulator: str, other: str) -> str:
        return accumulator

    def result(self, accumulator: str) -> str:
        return accumulator


class FailingOperator(sl.Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        fail(batch.to_pylist())


class FailingSource(sl.sources.Iterator):
    """A source whose rows do not fit its schema."""

    def __init__(self) -> None:
        super().__init__([{"n": SECRET}], schema="n BIGINT")


async def asked(row: Row) -> Any:
    fail(row)


CAST = pc.field("line").cast(pa.int64())
N = "n BIGINT"
USER_CODE: dict[str, Callable[[sl.Stream], sl.Stream]] = {
    "map": lambda rows: rows.map(fail, schema=N),
    "map: type": lambda rows: rows.map(lambda row: {"n": row["line"]}, schema=N),
    "map: columns": lambda rows: rows.map(lambda row: row["line"], schema=N),
    "flat_map": lambda rows: rows.flat_map(fail, schema=N),
    "flat_map: type": lambda rows: rows.flat_map(lambda row: [{"n": row["line"]}], schema=N),
    "filter": lambda rows: rows.filter(fail),
    "filter: type": lambda rows: rows.filter(lambda row: row["line"]),
    "filter: expression": lambda rows: rows.filter(CAST > 0),
    "filter: batches": lambda rows: rows.filter(lambda batch: fail(batch.to_pylist()), format="arrow"),
    "map_batches": lambda rows: rows.map_batches(lambda batch: fail(batch.to_pylist()), schema=N),
    "map_batches: pandas": lambda rows: rows.map_batches(
        lambda frame: frame.assign(n=frame["line"].astype("int64")), schema="line STRING, n BIGINT", format="pandas"
    ),
    "map_batches: rows": lambda rows: rows.map_batches(
        lambda items: [{"n": item["line"]} for item in items], schema=N, format="rows"
    ),
    "with_columns": lambda rows: rows.with_columns(n=CAST),
    "process": lambda rows: rows.process(Failing(), schema=N),
    "process: batches": lambda rows: rows.process(FailingBatch(), schema=N),
    "process: keyed": lambda rows: rows.key_by("line").process(Failing(), schema=N, uid="it"),
    "process: timer": lambda rows: rows.key_by("line").process(FailingLater(), schema=N, uid="it"),
    "process: second": lambda rows: (
        rows.key_by("line").connect(rows.key_by("line")).process(FailingSecond(), schema=N, uid="it")
    ),
    "map_with_state": lambda rows: rows.key_by("line").map_with_state(
        lambda state, row: fail(row), state=int, schema=N, uid="it"
    ),
    "map_with_state: columns": lambda rows: rows.key_by("time").map_with_state(
        lambda state, line: (line, 1), state=int, schema=N, columns=["line"], uid="it"
    ),
    "update_state": lambda rows: rows.key_by("line").update_state(
        lambda old, groups, batch: fail(batch.to_pylist()), state="bigint", schema=N, uid="it"
    ),
    "async_map": lambda rows: rows.async_map(asked, schema=N, uid="it"),
    "async_map: threads": lambda rows: rows.async_map(fail, schema=N, uid="it"),
    "aggregate: own": lambda rows: rows.key_by("time").aggregate(
        n=sl.aggregate(FailingSum(), "line", type="string"), uid="it"
    ),
    "aggregate: where": lambda rows: rows.key_by("time").aggregate(n=sl.count(where=CAST > 0), uid="it"),
    "window": lambda rows: (
        rows.key_by("line").window(sl.Tumbling("1s")).process(lambda key, window, table: fail(key), schema=N, uid="it")
    ),
    "window: null": lambda rows: (
        rows.key_by("line").window(sl.Tumbling("1s"), on="null").aggregate(n=sl.count(), uid="it")
    ),
    "key_by: null": lambda rows: rows.key_by("null").aggregate(n=sl.count(), uid="it"),
    "join: where": lambda rows: rows.key_by("time").join(
        rows.key_by("time"), where=CAST > 0, suffixes=("", "_right"), uid="it"
    ),
    "apply": lambda rows: rows.apply(FailingOperator(), schema=N),
    "source": lambda rows: rows._job.source(FailingSource(), uid="other"),
}
SINKS: dict[str, sl.Sink] = {
    "Foreach": sl.sinks.Foreach(fail),
    "ForeachBatch": sl.sinks.ForeachBatch(lambda table, commit_id: fail(table.to_pylist())),
}


def failed(case: str, execution: sl.Execution) -> tuple[str, str]:
    """The message of a job that fails, and all else that it says: log and events."""
    job = sl.Job("failing", execution=execution, restart=sl.NoRestart())
    source = sl.sources.Iterator([(SECRET, 1, None)], schema="line STRING, time BIGINT, null BIGINT")
    rows = job.source(source, uid="lines", watermarks=sl.Watermarks("time"))
    made = USER_CODE[case](rows) if case in USER_CODE else rows
    made.sink(SINKS.get(case, sl.sinks.Print(0)), uid="out")
    handle = job.start(ThreadCluster())
    with pytest.raises(sl.JobFailedError) as caught:
        handle.wait()
    return str(caught.value), f"{caught.value.log}{handle.events()}{handle.cause}"


@pytest.mark.parametrize("case", [*USER_CODE, *SINKS])
def test_every_kind_of_user_code_shows_the_row_unless_rows_are_private(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    message, _ = failed(case, sl.Execution())
    first_line = message.splitlines()[0]
    assert SECRET in first_line
    assert len(first_line) < 700
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        message, other = failed(case, sl.Execution(show_rows=False))
    logged = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    assert "UserCodeError" in logged or "NullKeyError" in logged or "ValueError" in logged
    for text in (message, other, logged):
        assert SECRET not in text


def test_an_error_shows_operator_exception_and_row() -> None:
    message, _ = failed("map", sl.Execution())
    assert message.splitlines()[0] == (
        "job 'failing' has failed: lines/0#1: UserCodeError: map 'map-1' raised ValueError: wrong: {'line': "
        "'4111-1111', 'time': 1, 'null': None}, for the row {'line': '4111-1111', 'time': 1, 'null': None}"
    )
    message, _ = failed("map", sl.Execution(show_rows=False))
    assert "map 'map-1' raised ValueError at " in message
    assert message.splitlines()[0].endswith(", in fail")


@pytest.mark.slow
def test_hidden_rows_stay_in_their_process() -> None:
    """The log of the process that failed comes to the driver, and tracebacks with it."""
    job = sl.Job("parse", execution=sl.Execution(show_rows=False), restart=sl.NoRestart())
    lines = job.source(sl.sources.Iterator(LINES), uid="lines")
    kept = lines.map(parse, schema="n BIGINT", uid="drop", on_error="drop")
    kept.sink(sl.sinks.Foreach(raising), uid="out")
    handle = job.start(ProcessCluster())
    with pytest.raises(sl.JobFailedError) as caught:
        handle.wait()
    assert "the function of the sink 'out' raised ValueError at" in str(caught.value)
    assert "bad rows so far: 1" in caught.value.log
    for text in (str(caught.value), caught.value.log, str(handle.events()), str(handle.metrics())):
        assert SECRET not in text


def raising(row: Row) -> None:
    raise ValueError(f"{SECRET} and {row}")


@pytest.mark.slow
def test_dead_letters_are_exactly_once(tmp_path: Path) -> None:
    """Every row comes out once, parsed or as a dead letter, although the job fails after each checkpoint."""
    parts: list[Any] = []
    for start in range(0, 300, 100):
        parts += [{"line": str(n) if n % 7 else f"bad {n}"} for n in range(start, start + 100)]
        parts += [AWAIT_CHECKPOINT, {"line": f"-{start + 1}"}, {"line": f"bad -{start}"}, ABORT]
    job = sl.Job(
        "parse",
        checkpoints=sl.Checkpoints(interval="20ms", storage=tmp_path / "checkpoints"),
        restart=sl.FixedDelay(attempts=10, delay="1ms"),
    )
    lines = job.source(ScriptedSource(parts, pa.schema([("line", pa.string())])), uid="lines")
    parsed = lines.map(parse, schema="n BIGINT", on_error="dead_letter", uid="parse")
    parsed.sink(sl.sinks.Files(tmp_path / "good"), uid="good")
    parsed.dead_letters.sink(sl.sinks.Files(tmp_path / "bad"), uid="bad")
    assert job.run(ThreadCluster()) is sl.JobStatus.FINISHED
    rows = [row["line"] for row in parts if isinstance(row, dict)]
    bad = [json.loads(row)["line"] for row in sl.sinks.read_files(tmp_path / "bad")["row"].to_pylist()]
    assert Counter(bad) == Counter(line for line in rows if line.startswith("bad"))
    assert numbers(sl.sinks.read_files(tmp_path / "good")) == sorted(
        int(line) for line in rows if not line.startswith("bad")
    )


def test_files_with_bad_rows_and_bad_files_do_not_stop_the_job(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,name\n1,a\ntwo,b\n3,c\n")
    (tmp_path / "b.csv").write_text("other\n1\n")
    (tmp_path / "c.csv").write_text("n,name\n4,d,e\n5,f\n")
    job = sl.Job("files", parallelism=2)
    source = sl.sources.Files(f"{tmp_path}/*.csv", format="csv", schema="n BIGINT, name STRING", on_error="dead_letter")
    rows = job.source(source, uid="files")
    bad = sl.sinks.Collect()
    rows.dead_letters.sink(bad, uid="bad")
    assert numbers(rows.collect(ThreadCluster())) == [1, 3, 5]
    letters = sorted(bad.table().to_pylist(), key=lambda letter: str(letter["file"]))
    assert [(Path(letter["file"]).name, letter["line"], letter["row"]) for letter in letters] == [
        ("a.csv", 3, "two,b"),
        ("b.csv", None, None),
        ("c.csv", 2, "4,d,e"),
    ]
    assert {letter["operator"] for letter in letters} == {"files"}


@pytest.mark.slow
@pytest.mark.parametrize("watch", [None, "50ms"])
def test_unreadable_parquet_files_are_left_out(tmp_path: Path, watch: str | None) -> None:
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-20])
    (tmp_path / "c.parquet").touch()
    pq.write_table(pa.table({"n": [3.0, 4.5]}), tmp_path / "d.parquet")
    job = sl.Job("files")
    source = sl.sources.Files(tmp_path, schema="n BIGINT", on_error="drop", watch=watch)
    found = sl.sinks.Collect()
    job.source(source, uid="files").sink(found, uid="all")
    handle = job.start(ThreadCluster())
    if watch is not None:
        wait_for(lambda: any(task.bad_rows == 3 for task in handle.metrics().values()))
        handle.stop(tmp_path / "savepoint")
    else:
        assert handle.wait() is sl.JobStatus.FINISHED
        assert sum(task.bad_rows for task in handle.metrics().values()) == 3
    assert numbers(found.table()) == [1, 2, 3]


@pytest.mark.slow
def test_a_job_that_failed_for_a_bad_row_goes_on_from_its_checkpoint_with_on_error(tmp_path: Path) -> None:
    rows = 400_000
    lines = "".join(f"{number}\n" for number in range(rows))
    (tmp_path / "in.csv").write_text(f"n\n{lines}oops\n{rows}\n")

    def job(on_error: str) -> sl.Job:
        made = sl.Job(
            "resumed",
            checkpoints=sl.Checkpoints(interval="10ms", storage=tmp_path / "checkpoints"),
            restart=sl.NoRestart(),
        )
        source = sl.sources.Files(tmp_path / "in.csv", format="csv", schema="n BIGINT", on_error=on_error)
        numbers = made.source(source, uid="numbers")
        numbers.sink(sl.sinks.Files(tmp_path / "good"), uid="good")
        if on_error == "dead_letter":
            numbers.dead_letters.sink(sl.sinks.Files(tmp_path / "bad"), uid="bad")
        return made

    with pytest.raises(sl.JobFailedError, match=f"line {rows + 2}, column 'n', cannot be read as csv"):
        job("fail").run(ThreadCluster())
    handle = job("dead_letter").start(ThreadCluster())
    assert handle.wait() is sl.JobStatus.FINISHED
    assert any("starts from" in text and "checkpoint" in text for _, text in handle.events())
    assert numbers(sl.sinks.read_files(tmp_path / "good")) == list(range(rows + 1))
    assert sl.sinks.read_files(tmp_path / "bad")["row"].to_pylist() == ["oops"]


def wait_for(condition: Any, timeout_s: float = 120.0) -> None:
    import time

    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)
