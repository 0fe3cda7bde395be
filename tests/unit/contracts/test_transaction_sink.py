"""A sink in the form of transactions keeps the contract of sinks."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa

import snapline as sl
from snapline.testing import SinkContract


class Folders(sl.TransactionSink):
    """A transaction is a file: in `open` while written, in `ready` once pre-committed, in `done` when committed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[str] = []

    def open(self, context: sl.SinkContext) -> None:
        for name in ("open", "ready", "done"):
            (self.root / name).mkdir(exist_ok=True)

    def begin_transaction(self) -> Any:
        name = secrets.token_hex(8)
        (self.root / "open" / name).touch()
        return {"name": name}

    def write_to(self, transaction: Any, batch: pa.RecordBatch) -> None:
        with (self.root / "open" / transaction["name"]).open("a") as file:
            file.writelines(f"{number}\n" for number in batch.column(0).to_pylist())

    def pre_commit(self, transaction: Any) -> None:
        self._move(transaction, "open", "ready")

    def commit(self, transaction: Any) -> None:
        self.log.append("commit")
        if not (self.root / "done" / transaction["name"]).exists():
            self._move(transaction, "ready", "done")

    def recover_and_commit(self, transaction: Any) -> None:
        self.commit(transaction)
        self.log[-1] = "recover and commit"

    def abort(self, transaction: Any) -> None:
        self.log.append("abort")
        (self.root / "open" / transaction["name"]).unlink(missing_ok=True)

    def recover_and_abort(self, transaction: Any) -> None:
        self.abort(transaction)
        self.log[-1] = "recover and abort"

    def close(self) -> None:
        self.log.append("close")

    def _move(self, transaction: Any, before: str, after: str) -> None:
        (self.root / before / transaction["name"]).rename(self.root / after / transaction["name"])


class TestTransactions(SinkContract):
    keeps_order = False

    def make_sink(self, directory: Path) -> sl.Sink:
        return Folders(directory)

    def visible_numbers(self, directory: Path) -> list[int]:
        done = directory / "done"
        paths = list(done.iterdir()) if done.exists() else []
        return [int(line) for path in paths for line in path.read_text().split()]


def test_what_another_process_left_is_recovered(tmp_path: Path) -> None:
    sink = Folders(tmp_path)
    first = sink.writer(sl.SinkContext("job", "out", 0, 1, 1))
    first.write(pa.record_batch({"x": [1]}))
    (payload,) = first.prepare(1)
    (state,) = first.state(1)
    own = sl.Committable("job/out/0/1/1/0", 1, payload)
    assert first.commit(own, sl.Permit(1, 1)) is sl.CommitResult.COMMITTED
    assert sink.log == ["commit"]
    sink.log.clear()
    second = sink.writer(sl.SinkContext("job", "out", 0, 1, 2))
    second.recover([state])
    second.commit(own, sl.Permit(2, 1))
    second.close()
    assert sink.log == ["recover and abort", "recover and commit", "abort", "close"]
    assert list((tmp_path / "open").iterdir()) == []
