"""Whether the answers are right: `python -m benchmarks.nexmark.check [--sql] [--events 1000000] [--queries q0,q5]`.

Every query, written with the API or with `--sql` from its SQL text over streaming views, runs as a job at each of the
given parallelisms, with an exactly-once sink. Its operator processes are killed (`kill -9`) while it runs, each time
after two more checkpoints have completed. The output is compared, row by row, with the answers of Spark SQL for the
same events. Spark's answers are kept in `--work`, so they are computed once.
The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.nexmark.comparing import difference, reduced
from benchmarks.nexmark.generator import EVENTS_PER_SECOND
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.running import CheckError, run_for_answers
from benchmarks.nexmark.spark_sql import Oracle
from benchmarks.nexmark.sql_queries import SqlQueries, folded
from benchmarks.parts import conditions, spark_session

from snapline.errors import SnaplineError
from snapline.testing.clusters import ProcessCluster


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one run. `problem` is empty if all rows are as expected and all crashes have happened."""

    query: str
    parallelism: int
    rows: int
    written: int
    seconds: float
    checkpoints: int
    crashed_after: tuple[int, ...]
    problem: str

    def __str__(self) -> str:
        crashes = f", killed after checkpoints {', '.join(map(str, self.crashed_after))}" if self.crashed_after else ""
        result = f"DIFFERENT: {self.problem}" if self.problem else "OK"
        written = "" if self.written == self.rows else f" of {self.written} written"
        return (
            f"{self.query:<4} parallelism {self.parallelism}: {self.rows} rows{written}, {self.seconds:.1f} s, "
            f"{self.checkpoints} checkpoints{crashes}: {result}"
        )


def check(
    query: str,
    oracle: Oracle,
    where: Any,
    *,
    events: int,
    parallelism: int,
    crashes: int = 0,
    events_per_second: int = EVENTS_PER_SECOND,
    sql: SqlQueries | None = None,
) -> Verdict:
    """Runs a query, from its SQL text if `sql` is given, and compares its answers with the oracle's."""
    expected = oracle.answer(query)
    directory = Path(tempfile.mkdtemp(prefix=f"nexmark-{query}-"))
    began_s = time.monotonic()
    try:
        run = run_for_answers(
            query, events, parallelism, where, directory, crashes=crashes, events_per_second=events_per_second, sql=sql
        )
        rows = folded(run.rows) if sql else reduced(run.rows, QUERIES[query].reduction, QUERIES[query].key)
    except (CheckError, SnaplineError, ValueError) as error:
        return Verdict(query, parallelism, 0, 0, time.monotonic() - began_s, 0, (), f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    problem = difference(rows, expected)
    crashed_after = tuple(crash.checkpoints for crash in run.crashes)
    return Verdict(
        query, parallelism, rows.num_rows, run.rows.num_rows, run.seconds, run.checkpoints, crashed_after, problem
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark.check", description=__doc__)
    parser.add_argument("--sql", action="store_true", help="run the queries from their SQL texts")
    parser.add_argument("--events", type=int, default=1_000_000, help="persons, auctions and bids together (1000000)")
    parser.add_argument("--queries", type=query_names, default=list(QUERIES), help="such as q0,q5 (all)")
    parser.add_argument("--parallelism", type=_numbers, default=[2], help="such as 1,2,4 (2)")
    parser.add_argument("--crashes", "--kills", type=int, default=2, help="operator processes killed in each run (2)")
    parser.add_argument("--on", choices=["spark", "process"], default="spark", help="where jobs run (spark)")
    parser.add_argument(
        "--events-per-second", type=int, default=EVENTS_PER_SECOND, help=f"of event time ({EVENTS_PER_SECOND})"
    )
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "nexmark", help="keeps the answers of Spark"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    verdicts = []
    with contextlib.closing(_Places(options.on, max(options.parallelism))) as places:
        sql = SqlQueries(places.spark()) if options.sql else None
        oracle = Oracle(places.spark, options.work, options.events, options.events_per_second)
        for query in options.queries:
            for parallelism in options.parallelism:
                verdict = check(
                    query,
                    oracle,
                    places.where,
                    events=options.events,
                    parallelism=parallelism,
                    crashes=options.crashes,
                    events_per_second=options.events_per_second,
                    sql=sql,
                )
                print(verdict, file=sys.stderr if options.json else sys.stdout, flush=True)
                verdicts.append(verdict)
    if options.json:
        results = [asdict(verdict) for verdict in verdicts]
        figures = {"events": options.events, "from": "sql" if options.sql else "api", "nexmark check": results}
        print(json.dumps({**figures, "conditions": conditions()}))
    return 1 if any(verdict.problem for verdict in verdicts) else 0


class _Places:
    """Starts Spark on first use, and holds what jobs run on."""

    def __init__(self, on: str, slots: int) -> None:
        self._slots = max(slots, 2)
        self._session: Any = None
        self.where = self.spark() if on == "spark" else ProcessCluster()

    def spark(self) -> Any:
        if self._session is None:
            self._session = spark_session(f"local[{self._slots}]")
        return self._session

    def close(self) -> None:
        if self._session is not None:
            self._session.stop()


def query_names(text: str) -> Sequence[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in QUERIES]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(QUERIES)}")
    return names


def _numbers(text: str) -> Sequence[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
