"""Spark's tests of `transformWithState` on Snapline: which pass, which fail with what, which say nothing.

```sh
python -m benchmarks.spark_tests SPARK_CHECKOUT [--only TEXT ...] [--json]
```

The tests are those of a checkout of Spark's repository, branch-4.3, and unchanged; they need pandas. Only the start of
their queries is replaced: `df.writeStream` is `snapline.write_stream(df)`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import unittest
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.spark_tests import suites
from benchmarks.spark_tests.replacement import snapline_starts
from benchmarks.spark_tests.suites import Outcome, Result


def run_all(checkout: Path, only: Sequence[str], *, is_told: bool) -> list[Result]:
    """Runs the tests whose names contain one of `only`."""
    tests = [test for test in suites.load(checkout) if any(text in suites.name_of(test) for text in only)]
    results: list[Result] = []
    with snapline_starts():
        for kind, members in itertools.groupby(tests, key=_class_of):
            problem = suites.class_setup_error(kind)
            if problem is not None:
                raise SystemExit(f"{kind.__name__} cannot be set up:\n{problem}")
            try:
                for test in members:
                    results.append(suites.run(test))
                    if is_told:
                        told = results[-1]
                        print(f"{told.outcome.value:13}{told.seconds:6.1f} s  {told.name}  {told.reason}", flush=True)
            finally:
                kind.tearDownClass()
    return results


def _class_of(test: unittest.TestCase) -> type[unittest.TestCase]:
    return type(test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of Spark's repository")
    parser.add_argument("--only", nargs="+", default=[""], help="run only tests whose names contain one of these")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--traces", action="store_true", help="print the traces of failures")
    options = parser.parse_args()
    # Python processes of Spark must find pandas.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    suites.quiet_modules()
    results = run_all(options.checkout, options.only, is_told=not options.json)
    counts = Counter(result.outcome.value for result in results)
    if options.json:
        rows = [{**asdict(result), "outcome": result.outcome.value} for result in results]
        print(json.dumps({"tests": len(results), "counts": counts, "results": rows}, indent=2))
    else:
        if options.traces:
            print(*(f"{result.name}\n{result.trace}" for result in results if result.trace), sep="\n")
        print(f"{len(results)} tests: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    sys.exit(0 if not counts[Outcome.FAILED.value] else 1)


if __name__ == "__main__":
    main()
