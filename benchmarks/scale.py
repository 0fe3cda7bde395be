"""What grows with slots, subtasks, keys and checkpoints: `python -m benchmarks.scale [--json] [--only PART ...]`.

slots        one real slot and up to 1,000 light ones in one process: connections, threads, memory, time
coordinator  the driver's work for one checkpoint and one restart, up to 10,000 subtasks: production classes without a
             network
simulated    whole jobs on the simulator, up to 1,000 slots, each with a crash and a restart
lists        operator list state, up to 10 million elements: size of the restart's messages, time to restore
keys         keyed state in memory: bytes for each key, time to take, write and read a snapshot
checkpoints  many checkpoints of a small job: files in storage, duration of the first and the last

Times are CPU time, except for the durations of checkpoints: a busy machine does not change them much.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.parts import Discard, temporary

import snapline as sl
from snapline.config import Encryption
from snapline.devtools.kit.light_peers import LightPeers
from snapline.devtools.simulator.large_job import STEPS_PER_SLOT, large_scenario
from snapline.devtools.simulator.scenario import Fault
from snapline.devtools.simulator.simulation import play
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.checkpoint_plan import Edge
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.keygroups import KeyGroupRange, key_group_ranges
from snapline.protocol.messages import Acknowledge
from snapline.protocol.restore.restore_plan import KeyedRestore, RestorePlan, RestoreVertex, plan_restore
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import (
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
    VertexInfo,
)
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.runtime.network.descriptors import require_descriptors
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.heartbeat import HeartbeatSettings
from snapline.runtime.wire.channel_items import data_item
from snapline.runtime.wire.control_messages import Deploy, TaskDeployment, decode_to_master, encode
from snapline.runtime.wire.credentials import new_credentials
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.storage import snapshot_metadata
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.testing.clusters import ThreadCluster
from snapline.types import Barrier, BarrierKind, ExecutionId, OperatorStateMode, SnapshotKind, SubtaskId, TaskStatus

Row = dict[str, Any]

PEERS = (10, 100, 1_000)
SUBTASKS = (100, 1_000, 10_000)
SIMULATED_SLOTS = (10, 100, 1_000)
ELEMENTS = (10_000, 1_000_000, 10_000_000)
KEYS = (100_000, 1_000_000, 5_000_000)
CHECKPOINTS = 300
NUMBERS = pa.schema([("number", pa.int64())])
LOCATION = "memory://job/chk-1"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="measure only these parts")
    options = parser.parse_args()
    results: dict[str, list[Row]] = {}
    for name in options.only:
        results[name] = PARTS[name]()
        if not options.json:
            print(f"\n{name}")
            for row in results[name]:
                print("  " + ", ".join(f"{key} {value:,}" for key, value in row.items()))
    if options.json:
        conditions = {
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "pyarrow": pa.__version__,
        }
        print(json.dumps({**results, "conditions": conditions}))
    return 0


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Returns the result and the milliseconds of CPU time, of all threads together."""
    started_s = time.process_time()
    result = call()
    return result, round((time.process_time() - started_s) * 1000, 2)


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Slots: the data plane.


def slots() -> list[Row]:
    one_slot(2)  # what libraries allocate once does not count
    return [one_slot(peers) for peers in PEERS]


def one_slot(peers: int) -> Row:
    """Both ends are in this process, so that memory is that of two slots' ends."""
    require_descriptors(3 * peers, "the benchmark")
    before_threads, before_bytes = threading.active_count(), resident_bytes()
    exchange = Exchange(
        "127.0.0.1",
        new_credentials(Encryption.MAC),
        slot=peers // 2,
        slots=peers + 1,
        batch_size_bytes=128 << 10,
        flush_timeout_ms=10,
        channel_memory_bytes=512 << 10,
        heartbeat=HeartbeatSettings(1000, 5000),
    )
    threads = threading.active_count() - before_threads
    light = LightPeers(exchange, peers + 1, NUMBERS)
    try:
        (wiring, outputs, task), connect_ms = timed(lambda: light.connect(1))
        batch = pa.record_batch([list(range(1000))], schema=NUMBERS)
        count = 0

        def rows() -> None:
            for output in outputs:
                output.send(data_item(batch))
                output.flush()
            task.wait(peers, count)

        def barriers() -> None:
            for output in outputs:
                output.send_barrier(Barrier(count, 0, BarrierKind.ALIGNED))
            task.wait(peers, count)

        times: dict[Callable[[], None], list[float]] = {rows: [], barriers: []}
        for _ in range(5):
            for call, taken in times.items():
                count += 1
                taken.append(timed(call)[1])
        used_bytes = resident_bytes() - before_bytes
        wiring.close()
    finally:
        light.close()
        exchange.close()
    return {
        "peers": peers,
        "connections": peers,
        "threads": threads,
        "connect_ms": connect_ms,
        "barrier_to_all_and_back_ms": statistics.median(times[barriers]),
        "batch_of_8_kb_to_all_and_back_ms": statistics.median(times[rows]),
        "bytes_per_connection_both_ends": used_bytes // peers,
    }


# The driver's work for one checkpoint and one restart.


def coordinator() -> list[Row]:
    return [one_checkpoint(subtasks) for subtasks in SUBTASKS]


def one_checkpoint(subtasks: int) -> Row:
    """Half of the subtasks are sources with offsets in list state, the others have keyed state in one file each."""
    parallelism = subtasks // 2
    vertices = tuple(VertexInfo(name, parallelism, 32_768, (name,)) for name in ("source", "count"))
    config = sl.Checkpoints(interval="1s", storage="memory")
    groups = key_group_ranges(32_768, parallelism)
    messages = [
        encode(acknowledgement(vertex.id, index, groups[index])) for vertex in vertices for index in range(parallelism)
    ]

    def run() -> tuple[Snapshot, float]:
        shape = JobShape(vertices, (Edge("source", "count", pointwise=False),))
        machine = CheckpointCoordinator(1, config, shape, Carryover.fresh(config), RetainedSnapshots(config.retained))
        for vertex in vertices:
            for subtask in vertex.subtasks():
                machine.handle(c.TaskStatusChanged(subtask, TaskStatus.RUNNING), 0)
        machine.handle(c.JobRunning(0.0), 0)
        started_s = time.process_time()
        machine.handle(c.TimerFired(c.Timer(c.TimerKind.PERIODIC)), 0)
        machine.handle(c.IdReserved("periodic-1-1", 1), 0)
        machine.handle(c.LocationCreated(1, LOCATION), 0)
        for message in messages:
            effects = machine.handle(decode_to_master(message), 1)  # type: ignore[arg-type]
        (write,) = (effect for effect in effects if isinstance(effect, c.WriteMetadata))
        return write.snapshot, (time.process_time() - started_s) * 1000

    snapshot, checkpoint_ms = min((run() for _ in range(3)), key=lambda made: made[1])
    data, encode_ms = timed(lambda: snapshot_metadata.encode(snapshot))
    _, decode_ms = timed(lambda: snapshot_metadata.decode(data, LOCATION))
    targets = [RestoreVertex(vertex.id, parallelism, vertex.operators) for vertex in vertices]
    plan, plan_ms = timed(lambda: plan_restore(snapshot, targets, []))
    peers = addresses(parallelism)
    deploys, deploy_ms = timed(lambda: [len(deployment(plan, index, peers)) for index in range(parallelism)])
    return {
        "subtasks": subtasks,
        "acknowledgement_bytes": len(messages[-1]),
        "checkpoint_ms": round(checkpoint_ms, 2),
        "metadata_bytes": len(data),
        "encode_metadata_ms": encode_ms,
        "decode_metadata_ms": decode_ms,
        "plan_restart_ms": plan_ms,
        "deploy_message_bytes": max(deploys),
        "encode_all_deploys_ms": deploy_ms,
    }


def acknowledgement(vertex: str, index: int, groups: KeyGroupRange) -> Acknowledge:
    if vertex == "source":
        stored = StoredObject(f"inline:a1-{vertex}-{index}#0", 600, crc32=index, data=bytes(600))
        state = SubtaskState(operator=(OperatorPart("splits", OperatorStateMode.SPLIT, 1, stored),))
    else:
        stored = StoredObject(f"{LOCATION}/a1-{vertex}-{index}-n.parquet", 100_000, crc32=index)
        state = SubtaskState(keyed=(KeyedPart(groups, (stored,)),))
    metrics = SubtaskMetrics(checkpointed_bytes=100)
    return Acknowledge(ExecutionId(SubtaskId(vertex, index), 1), 1, {vertex: state}, metrics)


def addresses(slots: int) -> list[tuple[str, int]]:
    return [(f"10.0.{slot // 256}.{slot % 256}", 40_000) for slot in range(slots)]


def deployment(plan: RestorePlan, index: int, peers: list[tuple[str, int]]) -> bytes:
    """The message that starts the subtasks of one slot."""
    tasks = [
        TaskDeployment(ExecutionId(subtask, 2), dict(restore))
        for subtask in (SubtaskId("source", index), SubtaskId("count", index))
        if (restore := plan.subtasks.get(subtask)) is not None
    ]
    return encode(Deploy(2, peers, dict(plan.max_parallelism), tasks, 1, 1, "memory://job/shared"))


# Whole jobs on the simulator.


def simulated() -> list[Row]:
    rows = []
    for slots in SIMULATED_SLOTS:
        scenario = large_scenario(slots, faults=frozenset({Fault.SUBTASK_CRASH}))
        outcome, taken_ms = timed(partial(play, scenario, max_steps=slots * STEPS_PER_SLOT))
        if outcome.error:
            raise SystemExit(f"the simulated job with {slots} slots failed: {outcome.error}")
        completed = sum(count for name, count in outcome.coverage.items() if name.startswith("completed:"))
        rows.append(
            {
                "slots": slots,
                "subtasks": sum(scenario.runs[0].parallelism.values()),
                "checkpoints": completed,
                "crashes": outcome.coverage["fault: subtask crash"],
                "steps_per_slot": outcome.steps // slots,
                "seconds_to_simulate": round(taken_ms / 1000, 1),
            }
        )
    return rows


# Operator list state.


def lists() -> list[Row]:
    return [one_list(elements) for elements in ELEMENTS]


def one_list(elements: int) -> Row:
    """One subtask writes the list, three restore it."""
    objects, states = MemoryObjects(), OperatorStates("op", 0)
    states.list_state("numbers", int).set(range(elements))
    writer = SnapshotWriter(objects, LOCATION, None, attempt=1, checkpoint_id=1, uid="op", subtask=0)
    parts, write_ms = timed(lambda: states.snapshot().write(writer))
    state = OperatorState("op", 1, 128, {0: SubtaskState(operator=parts)})
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, LOCATION, {"op": state})
    plan, plan_ms = timed(lambda: plan_restore(snapshot, [RestoreVertex("count", 3, ("op",))], []))
    restore = plan.subtasks[SubtaskId("count", 1)]["op"]
    after = OperatorStates("op", 1)
    _, read_ms = timed(lambda: after.restore(restore.operator, SnapshotReader(objects)))
    numbers, decode_ms = timed(lambda: after.list_state("numbers", int))
    assert abs(len(numbers) - elements // 3) <= 1
    return {
        "elements": elements,
        "stored_bytes": parts[0].object.size_bytes,
        "write_ms": write_ms,
        "plan_ms": plan_ms,
        "deploy_message_bytes": len(deployment(plan, 1, addresses(3))),
        "read_a_third_ms": round(read_ms + decode_ms, 2),
    }


# Keyed state.


def keys() -> list[Row]:
    one_state(1000)  # what libraries allocate once does not count
    return [one_state(count) for count in KEYS]


def one_state(count: int) -> Row:
    """A 64-bit counter for each 64-bit key, in the memory backend."""
    groups = KeyGroupRange(0, 127)
    directory = temporary()
    try:
        before_bytes = resident_bytes()
        backend = MemoryBackend("bigint", max_parallelism=128, key_groups=groups, clock=int)
        state = backend.value_state("n", "bigint")
        for part in np.array_split(np.arange(count), max(count // 65_536, 1)):
            state.put(pa.array(part), pa.array(part))
        used_bytes = resident_bytes() - before_bytes
        writer = SnapshotWriter(
            FileObjects(), f"{directory}/chk-1", None, attempt=1, checkpoint_id=1, uid="op", subtask=0
        )
        snapshot, sync_ms = timed(backend.snapshot)
        parts, write_ms = timed(lambda: snapshot.write(writer))
        snapshot.release()
        stored = sum(item.size_bytes for part in parts for item in part.objects)
        restores = [KeyedRestore(part, groups) for part in parts]
        after = MemoryBackend("bigint", max_parallelism=128, key_groups=groups, clock=int)
        _, read_ms = timed(lambda: after.restore(restores, SnapshotReader(FileObjects())))
        return {
            "keys": count,
            "memory_bytes_per_key": round(used_bytes / count, 1),
            "synchronous_part_ms": sync_ms,
            "write_ms": write_ms,
            "read_ms": read_ms,
            "stored_bytes_per_key": round(stored / count, 1),
        }
    finally:
        shutil.rmtree(directory, ignore_errors=True)


# Many checkpoints.


def checkpoints() -> list[Row]:
    directory = temporary()
    try:
        settings = sl.Checkpoints(interval="10ms", storage=directory, history=CHECKPOINTS)
        job = sl.Job("checkpoints", parallelism=2, checkpoints=settings)
        job.source(sl.sources.Rate(rows_per_second=1000), uid="rows").key_by("user").aggregate(
            n=sl.count(), uid="counts"
        ).sink(Discard(), uid="out")
        handle = job.start(ThreadCluster(slots=2))
        samples: list[Row] = []
        deadline_s = time.monotonic() + 120
        while handle.checkpoints().counts.completed < CHECKPOINTS and time.monotonic() < deadline_s:
            time.sleep(0.2)
        history = [record.end_to_end_duration_ms for record in handle.checkpoints().history]
        files = sum(len(names) for _, _, names in os.walk(directory))  # passes over what is deleted meanwhile
        samples.append(
            {
                "checkpoints": handle.checkpoints().counts.completed,
                "files_in_storage": files,
                "first_50_p50_ms": statistics.median(history[-50:]),
                "last_50_p50_ms": statistics.median(history[:50]),
            }
        )
        handle.cancel()
        handle.wait()
        return samples
    finally:
        shutil.rmtree(directory, ignore_errors=True)


PARTS: dict[str, Callable[[], list[Row]]] = {
    "slots": slots,
    "coordinator": coordinator,
    "simulated": simulated,
    "lists": lists,
    "keys": keys,
    "checkpoints": checkpoints,
}


if __name__ == "__main__":
    sys.exit(main())
