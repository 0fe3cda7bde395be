"""Rows that cannot be read or processed, in whole jobs: errors that show them, and dead letters."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
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


def failed(execution: sl.Execution, **options: Any) -> tuple[str, str]:
    """The message and the log of a job that fails."""
    job = sl.Job("parse", execution=execution, restart=sl.NoRestart())
    lines = job.source(sl.sources.Iterator(LINES), uid="lines")
    lines.map(parse, schema="n BIGINT", uid="parse", **options).sink(sl.sinks.Print(0), uid="out")
    with pytest.raises(sl.JobFailedError) as caught:
        job.run(ThreadCluster())
    return str(caught.value), caught.value.log


def test_an_error_shows_operator_exception_and_row() -> None:
    message, _ = failed(sl.Execution())
    assert "map 'parse' raised ValueError: invalid literal for int() with base 10: '4111-1111'" in message
    assert ", for the row {'line': '4111-1111'}" in message


def test_rows_and_what_exceptions_say_can_be_hidden_everywhere(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        message, log = failed(sl.Execution(show_rows=False))
    assert "map 'parse' raised ValueError at " in message
    assert "in parse" in message
    logged = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    assert "parse" in logged
    for text in (message, log, logged):
        assert SECRET not in text


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


def wait_for(condition: Any, timeout_s: float = 20.0) -> None:
    import time

    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)
