"""What one call of a state costs in a function of rows: `python -m benchmarks.functions.state_calls` prints JSON.

CPU time in microseconds per row, for keys drawn from 10,000 in batches of 8,192 rows, the fetching and writing of the
states of a batch included and the loop over the rows left out. Every figure is that of the quickest of several rounds.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.functions.payments import CARDS
from benchmarks.functions.snapline_functions import BATCH, payments

from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.timers import TimeDomain

ROUNDS = 12
OPTIONS: dict[str, Any] = {"max_parallelism": 128, "key_groups": KeyGroupRange(0, 127), "clock": int}

Call = Callable[[int], object]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        rocksdb = RocksDbBackend("bigint", directory=Path(directory) / "db", **OPTIONS)
        figures = {"memory": costs(MemoryBackend("bigint", **OPTIONS)), "rocksdb": costs(rocksdb)}
        rocksdb.close()
    print(json.dumps(figures))


def costs(backend: KeyedBackend) -> dict[str, float]:
    """Microseconds per row of each call."""
    gc.collect()
    nothing = cost(backend, lambda _: None)
    return {name: round(cost(backend, call) - nothing, 2) for name, call in calls(backend)}


def calls(backend: KeyedBackend) -> Iterator[tuple[str, Call]]:
    """Each with the number of the row as its argument."""
    number, pair = backend.value_state("number", int), backend.value_state("pair", "n BIGINT, s BIGINT")
    thing, counts = backend.value_state("thing"), backend.map_state("counts", int, int)
    recent, best = backend.map_state("recent", int, "amount BIGINT, country BIGINT"), backend.list_state("best", int)
    timers = backend.timers()
    yield "value of a number: get and set", lambda n: number.set((number.get() or 0) + n)
    yield "value of a struct: get and set", lambda n: pair.set(pair.get() or {"n": 0, "s": n})
    yield "value of any object: get and set", lambda n: thing.set(thing.get() or [n])
    yield "map of numbers, 20 entries: get and put", lambda n: counts.put(n % 20, (counts.get(n % 20) or 0) + 1)
    yield "map of structs: put", lambda n: recent.put(n % 6, {"amount": n, "country": 0})
    yield "map of structs, 6 entries: items", lambda _: recent.items()
    yield "list, 10 elements: get and set", lambda n: best.set([*best.get(), n][-10:])
    yield "list: add", best.add
    yield "timer: set", lambda n: timers.register(TimeDomain.EVENT, n)


def cost(backend: KeyedBackend, call: Call) -> float:
    selection, spent = backend.selection, []
    for turn in range(ROUNDS):
        batch = payments(turn * BATCH, BATCH, CARDS)
        numbers = batch.column("n").to_pylist()
        before_s = time.process_time()
        owners = selection.begin(backend.keys(batch.column("card")))
        for owner, n in zip(owners, numbers, strict=True):
            selection.owner = owner
            call(n)
        selection.end()
        spent.append(time.process_time() - before_s)
    # The first rounds fill the states.
    return min(spent[ROUNDS // 2 :]) / BATCH * 1e6


if __name__ == "__main__":
    main()
