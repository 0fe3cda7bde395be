"""State larger than memory, in RocksDB, without Spark: `python -m benchmarks.wide_state [--json] [--gigabytes N]`.

Two subtasks, a process each, fill their share of the state, update random keys, and take checkpoints: the first after
the fill, incremental ones after updates of one key in a hundred. A new process then restores each share and reads some
of it, and four processes restore a quarter each. Every write and read of a checkpoint is compared with the disk's own
speed: the same number of bytes written and read in one piece, in the same run. Each process reports the peak of its
memory above what it had before it made its state.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.config.units import size_bytes
from snapline.protocol.keygroups import KeyGroupRange, key_group_range
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.rocksdb.state_memory import StateMemory
from snapline.state.stable_hash import hash_columns, key_groups
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter

GROUPS = 128
SUBTASKS = 2
RESCALED = 4
VALUE_BYTES = 100
BATCH = 32_768
UPDATED_SHARE = 100
INCREMENTS = 3
SAMPLE = 10_000
_PIECE = 8 << 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wide_state", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--gigabytes", type=float, default=10.0, help="of keys and values (10)")
    parser.add_argument("--state-memory", default="1GB", help="limit for the state of each process (1GB)")
    parser.add_argument("--directory", help="on the disk to measure (the temporary directory)")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step is not None:
        step, root, index = json.loads(options.step)
        print(json.dumps(STEPS[step](Path(root), index, options)))
        return 0
    root = Path(tempfile.mkdtemp(prefix="snapline-wide-", dir=options.directory))
    try:
        result = measure(root, options)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if options.json:
        print(json.dumps(result))
    else:
        _tell(result)
    return 0


def measure(root: Path, options: argparse.Namespace) -> dict[str, Any]:
    filled = _run("fill", root, range(SUBTASKS), options)
    restored = _run("restore", root, range(SUBTASKS), options)
    rescaled = _run("rescale", root, range(RESCALED), options)
    every = [*filled, *restored, *rescaled]
    saved = sum(step["first checkpoint bytes"] for step in filled)
    disk = disk_speed(root, saved)
    return {
        "conditions": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "gigabytes": options.gigabytes,
            "keys": _keys(options),
            "state_memory": options.state_memory,
            "subtasks": SUBTASKS,
        },
        "state_bytes": sum(step["state bytes"] for step in filled),
        "fill": _sum(filled, "fill"),
        "update": _sum(filled, "update"),
        "disk": disk,
        "first_checkpoint": _io(filled, "first checkpoint", disk["write_bytes_per_s"]),
        "incremental_checkpoints": [
            _io(filled, f"checkpoint {number}", disk["write_bytes_per_s"]) for number in range(INCREMENTS)
        ],
        "restore": _io(restored, "restore", disk["read_bytes_per_s"]),
        "rescale": _io(rescaled, "restore", disk["read_bytes_per_s"]),
        "peak_memory_bytes": max(step["peak bytes"] for step in every),
        "state_memory_bytes": size_bytes(options.state_memory),
    }


def _run(step: str, root: Path, indexes: Sequence[int], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run a step of all subtasks at the same time, each in a process of its own."""
    given = ["--gigabytes", str(options.gigabytes), "--state-memory", options.state_memory]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.wide_state", *given, "--step", json.dumps([step, str(root), index])],
            stdout=subprocess.PIPE,
        )
        for index in indexes
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"the step {step!r} failed")
    return [json.loads(output) for output in outputs]


# The steps, each in a process of its own.


def fill(root: Path, index: int, options: argparse.Namespace) -> dict[str, Any]:
    job = _Subtask(root / f"db-{index}", key_group_range(GROUPS, SUBTASKS, index), options)
    own = job.keys
    start_s = time.monotonic()
    for keys in np.array_split(own, max(len(own) // BATCH, 1)):
        job.put(keys, version=0)
    result: dict[str, Any] = {"fill seconds": time.monotonic() - start_s, "fill rows": len(own)}
    result |= job.checkpoint(root, index, "first checkpoint", 1)
    rng, seconds, rows = np.random.default_rng(index), 0.0, 0
    for number in range(INCREMENTS):
        start_s = time.monotonic()
        chosen = own[np.unique(rng.integers(0, len(own), len(own) // UPDATED_SHARE))]
        for keys in np.array_split(chosen, max(len(chosen) // BATCH, 1)):
            job.update(keys)
        seconds, rows = seconds + time.monotonic() - start_s, rows + len(chosen)
        result |= job.checkpoint(root, index, f"checkpoint {number}", number + 2)
    result |= {"update seconds": seconds, "update rows": rows, "state bytes": len(own) * (8 + VALUE_BYTES)}
    return result | job.close()


def restore(root: Path, index: int, options: argparse.Namespace) -> dict[str, Any]:
    return _restored(root, index, SUBTASKS, options)


def rescale(root: Path, index: int, options: argparse.Namespace) -> dict[str, Any]:
    return _restored(root, index, RESCALED, options)


def _restored(root: Path, index: int, parallelism: int, options: argparse.Namespace) -> dict[str, Any]:
    groups = key_group_range(GROUPS, parallelism, index)
    job = _Subtask(root / f"restored-{parallelism}-{index}", groups, options)
    start_s, size = time.monotonic(), 0
    for saved in range(SUBTASKS):
        for part in pickle.loads((root / f"parts-{saved}").read_bytes()):  # noqa: S301, our own file
            shared = part.key_groups.intersection(groups)
            if shared:
                job.backend.restore([KeyedRestore(part, shared)], SnapshotReader(FileObjects()))
                size += sum(item.size_bytes for item in part.objects) * len(shared) // len(part.key_groups)
    seconds = time.monotonic() - start_s
    job.check(np.random.default_rng(1).choice(job.keys, SAMPLE))
    result = {"restore seconds": seconds, "restore bytes": size, "state and sample seconds": time.monotonic() - start_s}
    return result | job.close()


STEPS = {"fill": fill, "restore": restore, "rescale": rescale}


class _Subtask:
    """One backend with one state: a version and text for each key."""

    def __init__(self, directory: Path, groups: KeyGroupRange, options: argparse.Namespace) -> None:
        self.keys = _own_keys(groups, _keys(options))
        self._before_bytes = _resident_bytes()
        self.backend = RocksDbBackend(
            "bigint",
            max_parallelism=GROUPS,
            key_groups=groups,
            clock=int,
            uid="wide",
            directory=directory,
            max_cached_entries=2**31 - 1,
            memory=StateMemory(size_bytes(options.state_memory)),
        )

    @property
    def _state(self) -> Any:
        return self.backend.value_state("text", "binary")

    def put(self, keys: Any, version: int) -> None:
        self._state.put(self.backend.keys(pa.array(keys)), _values(keys, version))

    def update(self, keys: Any) -> None:
        """Read the values, and write the next version."""
        rows = self.backend.keys(pa.array(keys))
        old = self._state.take(rows)
        assert not old.null_count
        self._state.put(rows, _values(keys, 1))

    def check(self, keys: Any) -> None:
        """Every key has one of its versions."""
        found = self._state.take(pa.array(keys)).to_pylist()
        either = zip(_values(keys, 0).to_pylist(), _values(keys, 1).to_pylist(), strict=True)
        assert all(value in pair for value, pair in zip(found, either, strict=True))

    def checkpoint(self, root: Path, index: int, name: str, number: int) -> dict[str, Any]:
        """Take a checkpoint, which the next ones build on. Returns its seconds and new bytes under `name`."""
        target = SnapshotWriter(
            FileObjects(),
            f"{root}/chk-{number}",
            f"{root}/shared",
            attempt=1,
            checkpoint_id=number,
            uid="wide",
            subtask=index,
        )
        start_s = time.monotonic()
        snapshot = self.backend.snapshot()
        synchronous_s = time.monotonic() - start_s
        parts: Sequence[KeyedPart] = snapshot.write(target)
        snapshot.release()
        self.backend.confirm(number)
        seconds = time.monotonic() - start_s
        (root / f"parts-{index}").write_bytes(pickle.dumps(list(parts)))
        new = sum(item.size_bytes for part in parts for item in part.objects if not item.reused)
        return {f"{name} seconds": seconds, f"{name} bytes": new, f"{name} synchronous seconds": synchronous_s}

    def close(self) -> dict[str, int]:
        self.backend.close()
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"peak bytes": peak_bytes - self._before_bytes}


def _values(keys: Any, version: int) -> pa.Array:
    """Text of a fixed length that belongs to a key and a version; half of it does not compress."""
    words = np.zeros((len(keys), VALUE_BYTES), dtype=np.uint8)
    mixed = np.asarray(keys, dtype=np.uint64)
    for word in range(VALUE_BYTES // 16):
        mixed = (mixed + np.uint64(version + 1)) * np.uint64(0x9E3779B97F4A7C15)
        words[:, 8 * word : 8 * word + 8] = mixed.view(np.uint8).reshape(-1, 8)
    offsets = np.arange(0, (len(keys) + 1) * VALUE_BYTES, VALUE_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(words.reshape(-1))])


def _keys(options: argparse.Namespace) -> int:
    return int(options.gigabytes * (1 << 30)) // (8 + VALUE_BYTES)


def _own_keys(groups: KeyGroupRange, keys: int) -> Any:
    """The keys that belong to key groups."""
    parts = []
    for start in range(0, keys, 1 << 16):
        numbers = np.arange(start, min(start + (1 << 16), keys))
        found = key_groups(hash_columns([pa.array(numbers)]), GROUPS)
        parts.append(numbers[(found >= groups.start) & (found <= groups.end)])
    return np.concatenate(parts)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def disk_speed(root: Path, size: int) -> dict[str, float]:
    """Write and read one file of some bytes, from start to end, without the system's cache where it allows that."""
    path, piece = root / "plain", os.urandom(_PIECE)
    start_s = time.monotonic()
    with path.open("wb", buffering=0) as file:
        for _ in range(0, size, _PIECE):
            file.write(piece)
        os.fsync(file.fileno())
    written_s = time.monotonic() - start_s
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        start_s = time.monotonic()
        while os.read(descriptor, _PIECE):
            continue
        read_s = time.monotonic() - start_s
    finally:
        os.close(descriptor)
        path.unlink()
    return {"bytes": size, "write_bytes_per_s": size / written_s, "read_bytes_per_s": size / read_s}


def _io(steps: list[dict[str, Any]], name: str, disk_bytes_per_s: float) -> dict[str, float]:
    """Subtasks work at the same time: their bytes together, in the seconds of the slowest."""
    size, seconds = sum(step[f"{name} bytes"] for step in steps), max(step[f"{name} seconds"] for step in steps)
    made = {"seconds": seconds, "bytes": size, "bytes_per_s": size / seconds}
    made["of_the_disk"] = made["bytes_per_s"] / disk_bytes_per_s
    synchronous = [step[f"{name} synchronous seconds"] for step in steps if f"{name} synchronous seconds" in step]
    return made | ({"synchronous_s": max(synchronous)} if synchronous else {})


def _sum(steps: list[dict[str, Any]], name: str) -> dict[str, float]:
    rows, seconds = sum(step[f"{name} rows"] for step in steps), max(step[f"{name} seconds"] for step in steps)
    return {"rows": rows, "seconds": seconds, "rows_per_s": rows / seconds}


def _tell(result: dict[str, Any]) -> None:
    disk = result["disk"]
    print(f"state    {result['state_bytes'] / 2**30:8.2f} GB, {result['conditions']['keys']:,} keys")
    print(
        f"disk     {disk['write_bytes_per_s'] / 2**20:8.0f} MB/s written, {disk['read_bytes_per_s'] / 2**20:.0f} read"
    )
    for name in ("fill", "update"):
        print(f"{name:<9}{result[name]['rows_per_s']:14,.0f} rows/s")
    increments = [(f"increment {number}", part) for number, part in enumerate(result["incremental_checkpoints"])]
    steps = [("checkpoint", result["first_checkpoint"]), *increments]
    for name, part in [*steps, ("restore", result["restore"]), ("rescale", result["rescale"])]:
        print(
            f"{name:<14}{part['seconds']:8.2f} s{part['bytes'] / 2**20:10.0f} MB"
            f"{part['bytes_per_s'] / 2**20:8.0f} MB/s{part['of_the_disk']:7.2f} of the disk"
        )
    limit, peak = result["state_memory_bytes"], result["peak_memory_bytes"]
    print(f"memory   {peak / 2**20:8.0f} MB at most in a process, of {limit / 2**20:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())
