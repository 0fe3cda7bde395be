"""What state costs: `python -m benchmarks.state [--json] [--keys N]`.

Batches of 65,536 rows with keys drawn uniformly from a million. Every ratio compares two things measured in the same
run, in turns, on the same batches; times are medians. The peers are what you would write without this package: a loop
over a dict, one get and one put for each key in RocksDB, `pyarrow.parquet.write_table` of the same columns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.groups import Groups
from snapline.state.memory_backend import MemoryBackend
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.stable_hash import hash_columns
from snapline.state.value_states import ValueState
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions

BATCH = 65_536
ROUNDS = 15
GROUPS = KeyGroupRange(0, 127)
ONES = pa.array(np.ones(BATCH, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two times in milliseconds, and how many times faster the first one is; `target` is the goal."""

    ours_ms: float
    peer_ms: float
    speedup: float
    target: float | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A part and a whole, in milliseconds or bytes, and their ratio; `target` is its upper limit."""

    part: float
    whole: float
    share: float
    target: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state", description="Cost of keyed state.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--keys", type=int, default=1_000_000, help="how many distinct keys (default: 1,000,000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snapline-bench-", dir=_fast_directory()) as directory:
        results: dict[str, Comparison | Share] = {}
        for name, measure in _measurements(options.keys, Path(directory)):
            results |= measure()
            if not options.json:
                print(f"... {name}", file=sys.stderr)
    if options.json:
        conditions = {
            "python": platform.python_version(),
            "pyarrow": pa.__version__,
            "machine": platform.machine(),
            "keys": options.keys,
            "batch_rows": BATCH,
            "rounds": ROUNDS,
            "files_in_memory": _fast_directory() is not None,
        }
        print(
            json.dumps(
                {"results": {name: asdict(result) for name, result in results.items()}, "conditions": conditions}
            )
        )
        return 0
    for name, result in results.items():
        if isinstance(result, Comparison):
            target = "" if result.target is None else f"   (target {result.target:g} x)"
            print(f"{name:<64}{result.ours_ms:9.2f} ms  {result.speedup:6.2f} x{target}")
        else:
            share = f"{result.share:8.2%}   (target {result.target:.0%})"
            print(f"{name:<64}{result.part:12.2f} of {result.whole:14.2f}  {share}")
    return 0


def _measurements(keys: int, directory: Path) -> Iterator[tuple[str, Callable[[], dict[str, Comparison | Share]]]]:
    numbers = np.random.default_rng(7)
    whole = [pa.array(numbers.integers(0, keys, BATCH)) for _ in range(ROUNDS)]
    yield "memory, int64 keys", lambda: memory_updates("int64", "bigint", whole, pa.array(np.arange(keys)), 5)
    yield (
        "memory, string keys",
        lambda: memory_updates(
            "string", "string", [_names(batch) for batch in whole], _names(pa.array(np.arange(keys))), 3
        ),
    )
    yield "rocksdb", lambda: rocksdb_updates(whole, keys, directory)
    yield "one key at a time", single_keys
    yield "hash", lambda: hashing(whole)
    yield "snapshots", lambda: snapshots(keys, directory)
    yield "increments", lambda: increments(keys, directory)


def memory_updates(
    what: str, kind: str, batches: list[pa.Array], all_keys: pa.Array, target: float
) -> dict[str, Comparison | Share]:
    """Adds 1 to the count of each row's key."""
    backend = MemoryBackend(kind, max_parallelism=128, key_groups=GROUPS, clock=int)
    state = backend.value_state("n", "bigint")
    _fill(state, all_keys)
    plain = dict.fromkeys(all_keys.to_pylist(), 1)
    lists = [batch.to_pylist() for batch in batches]
    ones = ONES.to_pylist()

    def loop(keys: list[Any], values: list[int]) -> None:
        get = plain.get
        for key, value in zip(keys, values, strict=True):
            plain[key] = get(key, 0) + value

    ours, from_arrow, from_lists = [], [], []
    for batch, keys in zip(batches, lists, strict=True):
        ours.append(_timed(lambda batch=batch: state.update(batch, _add_ones)))  # type: ignore[misc]
        from_arrow.append(_timed(lambda batch=batch: loop(batch.to_pylist(), ONES.to_pylist())))  # type: ignore[misc]
        from_lists.append(_timed(lambda keys=keys: loop(keys, ones)))  # type: ignore[misc]
    # The dict has seen every batch twice.
    expected = [1 + (plain[key] - 1) // 2 for key in lists[0][:100]]
    assert state.take(batches[0].slice(0, 100)).to_pylist() == expected
    return {
        f"memory update, {what} keys / dict loop over the Arrow batch": _comparison(ours, from_arrow, target),
        f"memory update, {what} keys / dict loop over Python lists": _comparison(ours, from_lists),
    }


def rocksdb_updates(batches: list[pa.Array], keys: int, directory: Path) -> dict[str, Comparison | Share]:
    """The same in RocksDB: with all state in the cache, and with a cache for a tenth of it."""
    from rocksdict import Options, Rdict, WriteOptions

    write = WriteOptions()
    write.disable_wal = True  # type: ignore[method-assign, assignment]
    plain = Rdict(str(directory / "plain"), Options(raw_mode=True))
    plain.set_write_options(write)
    for key in range(keys):
        plain[key.to_bytes(8, "big")] = (1).to_bytes(8, "little")
    plain.flush()
    states = {}
    for name, entries in (("within the cache", 2 * keys), ("ten times the cache", keys // 10)):
        backend = _rocksdb(directory / name, entries)
        states[name] = backend.value_state("n", "bigint")
        _fill(states[name], pa.array(np.arange(keys)))
        backend.evict()

    def loop(batch: pa.Array) -> None:
        for key in batch.to_pylist():
            name = key.to_bytes(8, "big")
            value: Any = plain[name]
            plain[name] = (int.from_bytes(value, "little") + 1).to_bytes(8, "little")

    for batch in np.array_split(np.arange(keys), max(keys // BATCH, 1)):
        states["within the cache"].take(pa.array(batch))
    results: dict[str, Comparison | Share] = {}
    peer = []
    ours: dict[str, list[float]] = {name: [] for name in states}
    for batch in batches:
        peer.append(_timed(lambda batch=batch: loop(batch)))  # type: ignore[misc]
        for name, state in states.items():
            ours[name].append(_timed(lambda batch=batch, state=state: state.update(batch, _add_ones)))  # type: ignore[misc]
    targets = {"within the cache": 3.0, "ten times the cache": None}
    for name, times in ours.items():
        results[f"rocksdb update, state {name} / get and put per key"] = _comparison(times, peer, targets[name])
    plain.close()
    return results


def single_keys() -> dict[str, Comparison | Share]:
    """Calls on one key, row by row, against plain dicts and lists, which are not saved. Times are for 10,000 calls."""
    calls, names = 10_000, [f"user-{number % 2_000}" for number in range(10_000)]
    backend = MemoryBackend("string", max_parallelism=128, key_groups=GROUPS, clock=int)
    value = backend.value_state("n", "bigint", default=0)
    entries, elements = backend.map_state("m", "string", "bigint"), backend.list_state("l", "bigint")
    plain: dict[str, int] = {}
    maps: dict[str, dict[str, int]] = {}
    lists: dict[str, list[int]] = {}

    def rows(action: Callable[[int], None]) -> float:
        keys = backend.keys(pa.array(names))

        def run() -> None:
            for row in range(calls):
                backend.select(keys, row)
                action(row)
            backend.select_none()

        return _timed(run)

    def each(action: Callable[[int], None]) -> float:
        def run() -> None:
            for row in range(calls):
                action(row)

        return _timed(run)

    pairs: list[tuple[str, Callable[[int], None], Callable[[int], None]]] = [
        (
            "get and set of a value",
            lambda _: value.set(value.get() + 1),
            lambda row: plain.__setitem__(names[row], plain.get(names[row], 0) + 1),
        ),
        (
            "put into a map",
            lambda row: entries.put(names[row // 2], row),
            lambda row: maps.setdefault(names[row], {}).__setitem__(names[row // 2], row),
        ),
        ("add to a list", elements.add, lambda row: lists.setdefault(names[row], []).append(row)),
    ]
    results: dict[str, Comparison | Share] = {}
    for name, ours, peer in pairs:
        times = [(rows(ours), each(peer)) for _ in range(3)]
        results[f"{name}, one key at a time / plain dicts"] = _comparison(
            [one for one, _ in times], [other for _, other in times]
        )
    return results


def hashing(batches: list[pa.Array]) -> dict[str, Comparison | Share]:
    """The stable hash against Python's own, which differs in every process."""
    results: dict[str, Comparison | Share] = {}
    for what, columns in (("int64", batches), ("string", [_names(batch) for batch in batches])):
        ours = [_timed(lambda column=column: hash_columns([column])) for column in columns]  # type: ignore[misc]
        peer = [_timed(lambda column=column: [hash(key) for key in column.to_pylist()]) for column in columns]  # type: ignore[misc]
        results[f"stable hash, {what} / Python's hash of each key"] = _comparison(ours, peer)
    return results


def snapshots(keys: int, directory: Path) -> dict[str, Comparison | Share]:
    """A full snapshot of two int64 values per key, to local files, against writing the same columns."""
    backend = MemoryBackend("bigint", max_parallelism=128, key_groups=GROUPS, clock=int, uid="bench")
    state = backend.value_state("pair", "struct<a:bigint,b:bigint>")
    all_keys = pa.array(np.arange(keys))
    values = pa.StructArray.from_arrays([all_keys, all_keys], names=["a", "b"])
    state.put(all_keys, values)
    columns = pa.table({"key_group": pa.array(np.zeros(keys, dtype=np.int32)), "key": all_keys, "value": values})
    synchronous, asynchronous, peer, first_write = [], [], [], []
    few = all_keys.slice(0, BATCH)
    for number in range(1, ROUNDS + 1):
        start = time.perf_counter()
        snapshot = backend.snapshot()
        synchronous.append(1e3 * (time.perf_counter() - start))
        first_write.append(_timed(lambda: state.put(few, values.slice(0, BATCH))))
        target = _target(directory / "snapshots", number)
        asynchronous.append(_timed(lambda target=target, snapshot=snapshot: snapshot.write(target)))  # type: ignore[misc]
        snapshot.release()
        path = directory / f"columns-{number}.parquet"
        peer.append(_timed(lambda path=path: _write_columns(columns, path)))  # type: ignore[misc]
    later_write = [_timed(lambda: state.put(few, values.slice(0, BATCH))) for _ in range(ROUNDS)]
    full = [one + other for one, other in zip(synchronous, asynchronous, strict=True)]
    part, whole = statistics.median(synchronous), statistics.median(asynchronous)
    return {
        f"synchronous part of a snapshot, {keys:,} keys, ms": Share(
            round(part, 4), round(whole, 2), part / whole, 0.05
        ),
        "full snapshot / pyarrow writing the same columns": _comparison(full, peer, 0.5),
        "first batch written behind a snapshot / any later one": _comparison(first_write, later_write),
    }


def increments(keys: int, directory: Path) -> dict[str, Comparison | Share]:
    """The bytes an incremental checkpoint uploads after 1 % of the keys have changed."""
    backend = _rocksdb(directory / "increments", 2 * keys)
    state = backend.value_state("n", "bigint")
    _fill(state, pa.array(np.arange(keys)))
    sizes, times = [], []
    changed = np.random.default_rng(11).choice(keys, size=max(keys // 100, 1), replace=False)
    for number in (1, 2):
        target = _target(directory / "uploads", number)
        start = time.perf_counter()
        snapshot = backend.snapshot()
        middle = time.perf_counter()
        parts = snapshot.write(target)
        times.append((1e3 * (middle - start), 1e3 * (time.perf_counter() - middle)))
        snapshot.release()
        backend.confirm(number)
        sizes.append(sum(item.size_bytes for part in parts for item in part.objects if not item.reused))
        state.put(pa.array(changed), pa.array(changed))
    backend.close()
    part, whole = times[0]
    return {
        f"synchronous part, rocksdb, {keys:,} keys changed, ms": Share(
            round(part, 4), round(whole, 2), part / whole, 0.05
        ),
        "incremental bytes after 1 % of the keys changed": Share(sizes[1], sizes[0], sizes[1] / sizes[0], 0.05),
    }


def _add_ones(old: pa.Array, groups: Groups) -> pa.Array:
    return groups.sum(ONES, onto=old)


def _names(keys: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("user-", keys.cast(pa.string()), "")


def _fill(state: ValueState, keys: pa.Array) -> None:
    for start in range(0, len(keys), BATCH):
        part = keys.slice(start, BATCH)
        state.put(part, ONES.slice(0, len(part)))


def _rocksdb(directory: Path, entries: int) -> RocksDbBackend:
    return RocksDbBackend(
        "bigint", max_parallelism=128, key_groups=GROUPS, clock=int, directory=directory, max_cached_entries=entries
    )


def _target(directory: Path, number: int) -> SnapshotWriter:
    location, shared = directory / f"chk-{number}", directory / "shared"
    for path in (location, shared):
        path.mkdir(parents=True, exist_ok=True)
    return SnapshotWriter(
        FileObjects(),
        str(location),
        str(shared),
        attempt=1,
        checkpoint_id=number,
        uid="bench",
        subtask=0,
        options=WriteOptions(inline_bytes=0),
    )


def _write_columns(columns: pa.Table, path: Path) -> None:
    """Writes as durably as Snapline, with the same Parquet settings."""
    with path.open("wb") as file:
        pq.write_table(columns, file, compression="none", use_dictionary=["key_group"], write_page_checksum=True)
        file.flush()
        os.fsync(file.fileno())


def _fast_directory() -> str | None:
    """Uses a directory in memory where there is one, so that disk speed does not matter."""
    shared = "/dev/shm"  # noqa: S108
    return shared if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 4 << 30 else None


def _timed(action: Callable[[], object]) -> float:
    """Returns the milliseconds a call takes."""
    start = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - start)


def _comparison(ours: list[float], peer: list[float], target: float | None = None) -> Comparison:
    one, other = statistics.median(ours), statistics.median(peer)
    return Comparison(round(one, 3), round(other, 3), round(other / one, 3), target)


if __name__ == "__main__":
    sys.exit(main())
