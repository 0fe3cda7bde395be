"""Count clicks per user in keyed state, save it, read the file with plain pyarrow, and restore it to two subtasks.

Run it with `python examples/keyed_state.py`. Pass a directory to keep the checkpoint, and inspect it with
`snapline inspect DIRECTORY/chk-1`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from snapline.protocol.keygroups import KeyGroupRange, key_group_ranges
from snapline.protocol.restore.restore_plan import RestoreVertex, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot, SubtaskState
from snapline.state.memory_backend import MemoryBackend
from snapline.state.stable_hash import hash_columns, key_groups
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import SnapshotKind, SubtaskId

UID = "clicks"
KEY_GROUPS = 128  # every key belongs to one of these for ever; subtasks own whole groups
BATCHES = [["ann", "bob", "ann", "eve"], ["bob", "ann", "dan"], ["eve", "eve"]]


def clock() -> int:
    return int(time.time() * 1000)


def make_backend(groups: KeyGroupRange) -> MemoryBackend:
    return MemoryBackend("string", max_parallelism=KEY_GROUPS, key_groups=groups, clock=clock, uid=UID)


def save(backend: MemoryBackend, objects: FileObjects, location: str) -> None:
    """Writes a checkpoint: state first, then the metadata that refers to it. No metadata means no checkpoint."""
    # State this small would go into the metadata; a limit of 0 gives it a file of its own to look at.
    options = WriteOptions(inline_bytes=0)
    writer = SnapshotWriter(objects, location, None, attempt=1, checkpoint_id=1, uid=UID, subtask=0, options=options)
    pending = backend.snapshot()  # the synchronous part: references the state, copies nothing
    try:
        state = SubtaskState(keyed=pending.write(writer))  # the asynchronous part: any thread may run it
    finally:
        pending.release()
    operator = OperatorState(UID, parallelism=1, max_parallelism=KEY_GROUPS, subtasks={0: state})
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, clock(), location, {UID: operator})
    objects.create(snapshot.metadata_path, metadata.encode(snapshot))


def main(directory: Path) -> None:
    objects, location = FileObjects(), str(directory / "chk-1")

    # One subtask owns all key groups. A batch is one call, however many rows it has and however often a key occurs.
    whole = make_backend(KeyGroupRange(0, KEY_GROUPS - 1))
    clicks = whole.reducing_state("clicks", "bigint", "sum")
    for users in BATCHES:
        clicks.add_all(pa.array(users), [1] * len(users))
    save(whole, objects, location)
    whole.close()

    # The state is a Parquet file: this needs only pyarrow.
    (file,) = Path(location).glob("*parquet")
    for row in pq.read_table(file).sort_by("key").to_pylist():
        print("in the file:", row)

    # Two new subtasks share the key groups, and each restores its own.
    snapshot = metadata.decode(objects.read(f"{location}/_metadata"), location)
    plan = plan_restore(snapshot, [RestoreVertex(UID, parallelism=2, operators=(UID,))], edges=[])
    users = sorted({user for batch in BATCHES for user in batch})
    group_of = dict(zip(users, key_groups(hash_columns([pa.array(users)]), KEY_GROUPS).tolist(), strict=True))
    for index, groups in enumerate(key_group_ranges(KEY_GROUPS, 2)):
        backend = make_backend(groups)
        backend.restore(plan.subtasks[SubtaskId(UID, index)][UID].keyed, SnapshotReader(objects))
        mine = [user for user in users if group_of[user] in groups]
        counts = backend.reducing_state("clicks", "bigint", "sum").take(mine).to_pylist()
        print(f"subtask {index}, key groups {groups.start} to {groups.end}:", dict(zip(mine, counts, strict=True)))
        backend.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
