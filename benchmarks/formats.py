"""Messages per second of processor time that each format decodes and encodes, on one core.

```sh
python -m benchmarks.formats [--json] [--messages N]
```
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import snapline as sl

BATCH_ROWS = 5000
SMALL = pa.schema([("user", pa.string()), ("n", pa.int64())])
USUAL = pa.schema([*SMALL, ("price", pa.float64()), ("at", pa.timestamp("us", "UTC")), ("ok", pa.bool_())])


def rows(schema: pa.Schema, count: int = BATCH_ROWS) -> pa.RecordBatch:
    numbers = np.arange(count)
    columns = {
        "user": pa.array([f"user-{number % 1000}" for number in range(count)]),
        "n": pa.array(numbers),
        "price": pa.array(numbers * 0.25),
        "at": pa.array(1_767_323_045_000_000 + numbers * 1000).cast(pa.timestamp("us", "UTC")),
        "ok": pa.array(numbers % 2 == 0),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def rate(work: Callable[[], Any], messages: int) -> int:
    """The best of several rounds, since others may use the machine."""
    rounds = max(1, messages // BATCH_ROWS)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(rounds):
            work()
        best = min(best, time.process_time() - start)
    return round(rounds * BATCH_ROWS / best)


def measure(messages: int) -> list[dict[str, Any]]:
    found = []
    for columns, schema in (("2 columns", SMALL), ("5 columns", USUAL)):
        for name, format in (("json", sl.formats.Json(schema)), ("avro", sl.formats.Avro(schema))):
            batch = rows(schema)
            decoder, encoder = format.decoder(), format.encoder(schema)
            encoded = list(encoder.encode(batch))
            few_bad = [b"{" if number % 100 == 0 else message for number, message in enumerate(encoded)]
            found.append(
                {
                    "format": name,
                    "rows": columns,
                    "bytes": round(sum(len(message or b"") for message in encoded) / len(encoded)),
                    "decoded_per_s": rate(lambda: decoder.decode(encoded), messages),  # noqa: B023  # called here
                    "decoded_per_s_1_percent_bad": rate(lambda: decoder.decode(few_bad), messages // 4),  # noqa: B023
                    "encoded_per_s": rate(lambda: encoder.encode(batch), messages),  # noqa: B023
                }
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--messages", type=int, default=100_000, help="messages of a round")
    options = parser.parse_args()
    found = measure(options.messages)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for row in found:
        print("  ".join(f"{name} {value:,}" if isinstance(value, int) else str(value) for name, value in row.items()))


if __name__ == "__main__":
    main()
