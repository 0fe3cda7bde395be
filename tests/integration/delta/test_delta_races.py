"""Processes that commit the same checkpoint to a Delta table at the same moment: it takes effect once.

The same file is the program of those processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import deltalake
import msgspec
import pyarrow as pa
import pytest
from tests.integration.delta.delta_kit import PERMIT, begun, context, prepared

import snapline as sl
from snapline.contracts.sink import CommitResult, Committable

ROUNDS = 30
AHEAD_S = 0.02


def compete(path: str, mode: str, attempt: int) -> None:
    """Commit what comes in, each at the time given; tell the answers."""
    sink = sl.sinks.Delta(path, mode=mode, key=["x"] if mode == "upsert" else [])
    committer = sink.global_committer(context(attempt=attempt))
    for line in sys.stdin:
        order = json.loads(line)
        committable = Committable(**msgspec.msgpack.decode(bytes.fromhex(order["committable"])))
        while time.time() < order["at"]:
            pass
        result = committer.commit(committable, PERMIT)
        assert isinstance(result, CommitResult)
        sys.stdout.write(f"{result.name}\n")
        sys.stdout.flush()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_of_two_commits_at_once_one_takes_effect(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "table"
    key = ["x"] if mode == "upsert" else []
    sink = begun(sl.sinks.Delta(path, mode=mode, key=key), pa.record_batch({"x": [0]}))
    command = [sys.executable, "-m", "tests.integration.delta.test_delta_races", str(path), mode]
    rounds = ROUNDS if mode == "append" else ROUNDS // 3
    racers = [
        subprocess.Popen([*command, str(attempt)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for attempt in (1, 2)
    ]
    try:
        answers = []
        for number in range(1, rounds + 1):
            committable = prepared(sink, pa.record_batch({"x": [number]}), number)
            fields = {"name": committable.name, "checkpoint_id": number, "payload": committable.payload}
            order = {"at": time.time() + AHEAD_S, "committable": msgspec.msgpack.encode(fields).hex()}
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write(json.dumps(order) + "\n")
                racer.stdin.flush()
            if number % 3 == 0:  # others write the table too
                deltalake.write_deltalake(path, pa.table({"x": [-number]}), mode="append")
            answers.append([racer.stdout.readline().strip() for racer in racers if racer.stdout is not None])
    finally:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.close()
            racer.wait(120)
            assert racer.stdout is not None
            racer.stdout.close()
    assert [sorted(answer) for answer in answers] == [["ALREADY_COMMITTED", "COMMITTED"]] * rounds
    table = deltalake.DeltaTable(path)
    found = sorted(table.to_pyarrow_table()["x"].to_pylist())
    assert found == sorted([*range(1, rounds + 1), *(-x for x in range(3, rounds + 1, 3))])
    records = [
        entry["txn"]["version"]
        for version in range(table.version() + 1)
        for line in (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
        if "txn" in (entry := json.loads(line))
    ]
    assert records == list(range(1, rounds + 1)), "each checkpoint is in one version of the table"


if __name__ == "__main__":
    compete(sys.argv[1], sys.argv[2], int(sys.argv[3]))
