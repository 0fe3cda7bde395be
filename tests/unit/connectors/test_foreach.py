"""Sinks that call a function or print."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError

PERMIT = sl.Permit(9, 99)
SCHEMA = pa.schema([("x", pa.int64())])


def context(subtask: int = 0, parallelism: int = 1) -> sl.SinkContext:
    return sl.SinkContext("job", "out", subtask, parallelism, 1)


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


class Recorder:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, where: sl.SinkContext) -> None:
        self.calls.append(("open", where.subtask))

    def __call__(self, *arguments: Any) -> None:
        self.calls.append(arguments)

    def close(self) -> None:
        self.calls.append("close")


def test_a_function_gets_every_row_at_once() -> None:
    recorder = Recorder()
    writer = sl.sinks.Foreach(recorder).writer(context())
    writer.write(rows(1, 2))
    assert list(writer.prepare(1)) == []
    writer.abort_newer(0)
    writer.close()
    assert recorder.calls == [("open", 0), ({"x": 1},), ({"x": 2},), "close"]


def test_a_function_gets_the_rows_of_a_checkpoint_together_with_an_id() -> None:
    recorder = Recorder()
    writer = sl.sinks.ForeachBatch(recorder).writer(context())
    writer.write(rows(1))
    writer.write(rows(2, 3))
    (payload,) = writer.prepare(7)
    committable = sl.Committable("job/out/0/1/7/0", 7, payload)
    for _ in range(2):
        assert writer.commit(committable, PERMIT) is sl.CommitResult.COMMITTED
    writer.close()
    assert recorder.calls[0] == ("open", 0)
    assert recorder.calls[1] == recorder.calls[2]
    table, commit_id = recorder.calls[1]
    assert table.to_pydict() == {"x": [1, 2, 3]}
    assert commit_id == "job/out/0/1/7/0"
    assert recorder.calls[3:] == ["close"]


def test_an_error_of_the_function_names_the_sink() -> None:
    def fail(*_: Any) -> None:
        raise KeyError("oops")

    with pytest.raises(UserCodeError, match="the function of the sink 'out' raised KeyError: 'oops'"):
        sl.sinks.Foreach(fail).writer(context()).write(rows(1))
    writer = sl.sinks.ForeachBatch(fail).writer(context())
    writer.write(rows(1))
    (payload,) = writer.prepare(1)
    with pytest.raises(UserCodeError, match="raised KeyError: 'oops', for name, in a batch of 1 row that begins"):
        writer.commit(sl.Committable("name", 1, payload), PERMIT)


def test_too_much_between_two_checkpoints_is_an_error() -> None:
    writer = sl.sinks.ForeachBatch(print, max_size="1kb").writer(context())
    writer.write(rows(*range(100)))
    with pytest.raises(UserCodeError, match="more than 1024 bytes between two checkpoints"):
        writer.write(rows(*range(100)))


def test_functions_are_checked() -> None:
    for kind in (sl.sinks.Foreach, sl.sinks.ForeachBatch):
        with pytest.raises(ConfigurationError, match="give a function of"):
            kind("text")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="limit=-1"):
        sl.sinks.Print(-1)


@pytest.mark.parametrize("sink", [sl.sinks.Foreach(print), sl.sinks.ForeachBatch(print), sl.sinks.Print()])
def test_what_another_kind_of_sink_has_prepared_is_not_committed(sink: sl.Sink) -> None:
    with pytest.raises(UserCodeError, match="name was prepared by another kind of sink"):
        sink.writer(context()).commit(sl.Committable("name", 1, {"pending": "a"}), PERMIT)


def test_the_first_rows_are_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapline.connectors.foreach._SLICE_ROWS", 30)
    writer = sl.sinks.Print(3).writer(context(1, 2))
    writer.write(rows(1, 2))
    assert capsys.readouterr().out == "out/1> {'x': 1}\nout/1> {'x': 2}\n"
    writer.write(rows(3, 4))
    writer.write(rows(5))
    assert capsys.readouterr().out == ("out/1> {'x': 3}\nout/1> ... limit reached, see Print(limit=...)\n")
    endless = sl.sinks.Print(None).writer(context())
    endless.write(rows(*range(100)))
    printed = capsys.readouterr().out.splitlines()
    assert (len(printed), printed[0], printed[-1]) == (100, "out> {'x': 0}", "out> {'x': 99}")
