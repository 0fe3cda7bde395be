"""Random expressions in Spark and in Snapline: `python -m benchmarks.expressions [--json] [--count N] [--seed N]`.

Typed random expressions over edge values are evaluated in ANSI and legacy mode and in two time zones, by Spark and by
Snapline; values and errors must be the same for every row. The exit status is 1 if there is a difference.

`--record FILE` keeps Spark's answers, and `--replay FILE` compares with them again, without Spark.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from benchmarks.expressions.running import Result, cases, compare, edge_batch, record, recorded
from benchmarks.expressions.spark_answers import session


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expressions", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--count", type=int, default=5000, help="number of expressions (5000)")
    parser.add_argument("--seed", type=int, default=1, help="makes the same expressions again (1)")
    parser.add_argument("--only", default="", help="classes of the outermost function, such as Add,Cast")
    parser.add_argument("--show", type=int, default=40, help="differences to print without --json (40)")
    parser.add_argument("--record", type=Path, help="keep Spark's answers in this file")
    parser.add_argument("--replay", type=Path, help="compare with the answers in this file")
    options = parser.parse_args()
    started_s = time.monotonic()
    result = _result(options)
    took_s = round(time.monotonic() - started_s, 1)
    if options.json:
        print(json.dumps({"seed": options.seed, "seconds": took_s, **result.as_json()}))
    else:
        _print(result, options.show, took_s)
    return 1 if result.differences else 0


def _result(options: argparse.Namespace) -> Result:
    if options.replay:
        batch, kept = recorded(options.replay)
        return compare(kept, batch)
    batch = edge_batch(options.seed)
    spark = session()
    try:
        found = cases(spark, options.count, options.seed, frozenset(filter(None, options.only.split(","))))
        answered = list(found)
        if options.record:
            record(answered, batch, options.record)
        return compare(answered, batch)
    finally:
        spark.stop()


def _print(result: Result, show: int, took_s: float) -> None:
    for difference in result.differences[:show]:
        print(f"{difference['setting']}: {difference['sql']}  ({difference['rows']} rows)")
        print(f"    {difference['inputs']}")
        print(f"    Spark {difference['spark']}, here {difference['snapline']}")
    for rejection in result.rejections[:10]:
        print("rejected:", rejection)
    counts = result.as_json()
    del counts["differences"]
    print(json.dumps(counts), f"{took_s} s")


if __name__ == "__main__":
    sys.exit(main())
