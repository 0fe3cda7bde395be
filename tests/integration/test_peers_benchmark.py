"""The comparison with peers: all make the same rows, results are compared, and what is missing is named."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.peers import __main__ as command
from benchmarks.peers import running
from benchmarks.peers.arithmetic import Sql
from benchmarks.peers.checking import answer, checksum, last_rows
from benchmarks.peers.entries import INSTALL, SYSTEMS, VARIANTS
from benchmarks.peers.nexmark_events import QUERIES, SQL_QUERIES, columns, interleaved, row_count, sql
from benchmarks.peers.nexmark_sql import ANSWER, SQL
from benchmarks.peers.snapline_jobs import WORKLOADS, check
from benchmarks.peers.workload import KEYS, MAX_EVENTS, key, value

from snapline.testing.clusters import ThreadCluster

EVENTS = 3000
KINDS = ("person", "auction", "bid")


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """Reads the same SQL as Flink and Spark, as far as numbers go."""
    connection = sqlite3.connect(":memory:")
    connection.create_function("MOD", 2, lambda left, right: left % right)
    connection.create_function("ELT", -1, lambda place, *words: words[place - 1])
    connection.execute("CREATE TABLE numbers (n BIGINT)")
    connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(EVENTS)])
    yield connection
    connection.close()


def plain(made: Any) -> list[Any]:
    found: list[Any] = made.to_pylist() if isinstance(made, pa.Array) else made.tolist()
    return found


def test_keys_and_values_are_the_same_in_sql_in_numpy_and_in_python(database: sqlite3.Connection) -> None:
    number = Sql("n")
    in_sql = database.execute(f"SELECT {key(number)}, {value(number)} FROM numbers ORDER BY n").fetchall()
    array = np.arange(EVENTS)
    assert in_sql == list(zip(key(array).tolist(), value(array).tolist(), strict=True))
    assert in_sql == [(key(n), value(n)) for n in range(EVENTS)]
    last = np.array([MAX_EVENTS - 1])
    assert key(last)[0] == key(MAX_EVENTS - 1) < KEYS


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_the_same_in_sql_and_in_numpy(database: sqlite3.Connection, kind: str) -> None:
    rows = row_count(kind, EVENTS)
    expressions = sql(kind, "n", rows)
    selected = ", ".join(map(str, expressions.values()))
    in_sql = database.execute(f"SELECT {selected} FROM numbers WHERE n < {rows} ORDER BY n").fetchall()
    order = interleaved(np.arange(rows), rows)
    assert sorted(order.tolist()) == list(range(rows))
    makers = columns(kind, order)
    assert in_sql == list(zip(*(plain(makers[name]()) for name in expressions), strict=True))


def test_queries_of_both_sides_have_the_columns_that_are_compared() -> None:
    assert {*SQL, "q13"} == set(ANSWER) == set(SQL_QUERIES) > set(QUERIES)
    with pytest.raises(ValueError, match="divided by 100"):
        interleaved(1, 3)


def expected(events: int, keys: int) -> dict[str, int]:
    totals: dict[int, list[int]] = {}
    for n in range(events):
        total = totals.setdefault(key(n, keys), [0, 0])
        total[0] += 1
        total[1] += value(n)
    return checksum([(k, *total) for k, total in totals.items()])


def test_checksums_do_not_depend_on_order_and_see_every_value() -> None:
    rows = [(1, 2, 30), (2, 1, 5), (1, 1, 10)]
    assert last_rows(rows) == [(1, 2, 30), (2, 1, 5)]
    assert checksum([(2, 1, 5), (1, 2, 30)]) == checksum([("1", "2", "30"), ("2", 1, 5)])
    assert checksum([(1, 2, 30)]) != checksum([(1, 2, 31)])
    assert answer("q8", [(1, "Ada", "2015-07-15 23:59:30.000")]) == answer(
        "q8", [(1, "Ada", "2015-07-15 23:59:30.000000")]
    )


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_snapline_computes_what_plain_python_does(workload: str) -> None:
    assert check(workload, EVENTS, 100, ThreadCluster())["result"] == expected(EVENTS, 100)


@pytest.mark.slow
def test_answers_do_not_depend_on_parallelism() -> None:
    one, two = (check("q3", EVENTS, 0, ThreadCluster(), parallelism) for parallelism in (1, 2))
    assert one["result"] == two["result"]
    assert one["result"]["rows"] > 0


def run_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, Any]:
    monkeypatch.setattr(sys, "argv", ["peers", "--json", *arguments])
    code = command.main()
    return code, json.loads(capsys.readouterr().out)


def test_peers_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = ",".join(f"{peer}=/no/such/python" for peer in INSTALL)
    code, told = run_command(monkeypatch, capsys, "--peer-python", nowhere)
    assert code == 0
    assert not told["parts"]
    for peer, install in INSTALL.items():
        assert any(line.startswith(f"{peer}: /no/such/python") and install in line for line in told["missing"])


def test_a_module_that_is_not_there_is_named() -> None:
    assert running.missing("flink", ("json",), sys.executable) is None
    said = running.missing("flink", ("json", "no_such_module", "no_such.part"), sys.executable)
    assert said is not None
    assert "has no no_such_module, no_such.part; pip install apache-flink" in said


def test_a_script_that_fails_tells_what_it_said() -> None:
    with pytest.raises(running.PeerError, match=r"(?s)ended with 2.*--events"):
        running.run(sys.executable, "benchmarks.peers.bytewax_state", [])


class Peers:
    """Instead of real ones: the second variant of each system is the faster one, and Flink may get a result wrong."""

    def __init__(self, *, wrong: bool = False) -> None:
        self._wrong = wrong

    def run(self, python: str, module: str, arguments: Sequence[str]) -> dict[str, Any]:
        del python
        if "--check" in arguments:
            return {"events": 1, "result": {"keys": 2 if self._wrong and "flink" in module else 1}}
        events = int(arguments[arguments.index("--events") + 1])
        rate = (
            100.0 if "snapline" in module else 50.0 if "--mini-batch" in arguments or "rocksdb" in arguments else 20.0
        )
        return {"events": events, "seconds": 1.0, "events_per_second": rate, "version": "1"}


def use(monkeypatch: pytest.MonkeyPatch, peers: Peers) -> None:
    monkeypatch.setattr(command, "run", peers.run)
    monkeypatch.setattr(command, "missing", lambda *_: None)


def test_the_best_variant_is_the_figure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, Peers())
    code, told = run_command(monkeypatch, capsys, "--only", "a", "--repeat", "2", "--events", "1000")
    assert code == 0
    made = told["parts"]["a"]
    assert made["results"]["equal"]
    assert made["systems"]["Flink SQL"][""]["best"] == "mini-batch on"
    assert made["systems"]["Flink SQL"][""]["variants"]["mini-batch off"]["rates"] == [20.0, 20.0]
    assert made["ratios"] == {"Flink SQL": {"": 2.0}, "Structured Streaming": {"": 2.0}}


def test_results_that_differ_are_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, Peers(wrong=True))
    code, told = run_command(monkeypatch, capsys, "--only", "a", "--events", "1000")
    assert code == 1
    assert not told["parts"]["a"]["results"]["equal"]


class SqlPeers:
    """Instead of real ones: Structured Streaming refuses q5, and Flink has another answer to it if `wrong`."""

    def __init__(self, *, wrong: bool = False) -> None:
        self._wrong = wrong

    def run(self, python: str, module: str, arguments: Sequence[str]) -> dict[str, Any]:
        del python
        queries = arguments[arguments.index("--queries") + 1].split(",")
        if "--check" in arguments:
            is_other = self._wrong and "flink" in module
            return {query: {"result": {"rows": 2 if is_other and query == "q5" else 1}} for query in queries}
        figure = {"events": 1, "seconds": 1.0, "events_per_second": 10.0 if "--sql" in arguments else 5.0}
        made: dict[str, Any] = {query: {**figure, "version": "1"} for query in queries}
        return {**made, "q5": {"refused": "no windows"}} if "structured" in module else made


@pytest.mark.parametrize("wrong", [True, False])
def test_queries_are_compared_one_by_one_and_those_that_a_peer_refuses_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: bool
) -> None:
    monkeypatch.setattr(command, "run", SqlPeers(wrong=wrong).run)
    monkeypatch.setattr(command, "missing", lambda *_: None)
    code, told = run_command(monkeypatch, capsys, "--only", "sql", "--queries", "q0,q5,q13")
    assert code == int(wrong)
    made = told["parts"]["sql"]
    assert made["results"]["equal"] is not wrong
    assert made["refused"] == {"Structured Streaming": {"q5": "no windows"}}
    assert made["ratios"]["Flink SQL"] == {"q0": 2.0, "q5": 2.0}
    assert made["ratios"]["Structured Streaming"] == {"q0": 2.0, "q13": 2.0}


def test_every_system_has_a_variant_and_every_variant_a_system() -> None:
    for part, systems in SYSTEMS.items():
        assert {system.name for system in systems} == {variant.system for variant in VARIANTS[part]}


@pytest.mark.parametrize(
    "arguments", [["--only", "d"], ["--queries", "q6"], ["--peer-python", "flink"], ["--peer-python", "storm=/x"]]
)
def test_arguments_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["peers", *arguments])
    with pytest.raises(SystemExit):
        command.main()
