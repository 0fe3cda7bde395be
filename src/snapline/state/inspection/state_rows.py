"""The rows of one state in a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from snapline.errors import ConfigurationError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart, OperatorState, Snapshot, StoredObject
from snapline.state import state_files
from snapline.state.inspection import snapshot_files
from snapline.state.rocksdb.rocksdb_files import read_state
from snapline.state.rocksdb.saved_database import saved_database
from snapline.state.state_info import StateInfo
from snapline.storage.snapshot_reader import SnapshotReader


@dataclass(frozen=True, slots=True)
class SubtaskRows:
    """Some rows of a state, as one subtask wrote them."""

    subtask: int
    info: StateInfo
    table: pa.Table


def select_state(snapshot: Snapshot, source: SnapshotReader, name: str) -> tuple[OperatorState, str]:
    """The operator and the state that `name`, of the form uid/state, means. Both parts may contain slashes.

    Raises `ConfigurationError` that lists the states if there is none of this name.
    """
    cuts = [index for index, letter in enumerate(name) if letter == "/"]
    splits = [(name[:cut], name[cut + 1 :]) for cut in cuts if name[:cut] in snapshot.operators]
    if not splits:
        listed = ", ".join(sorted(snapshot.operators)) or "none"
        raise ConfigurationError(f"no operator of {name!r} is in the snapshot; write UID/NAME; the uids are: {listed}")
    known: set[str] = set()
    for uid, state in splits:
        operator = snapshot.operators[uid]
        for _, item in snapshot_files.state_objects(operator):
            found = snapshot_files.describe_file(item, source).info.state
            if found == state:
                return operator, state
            known.add(f"{uid}/{found}")
        for _, part in snapshot_files.native_parts(operator):
            names = {entry.info.state for entry in snapshot_files.read_listing(part, source).states}
            if state in names:
                return operator, state
            known |= {f"{uid}/{found}" for found in names}
    raise ConfigurationError(
        f"there is no state {name!r} in the snapshot; there is: {', '.join(sorted(known)) or 'none'}"
    )


def state_rows(
    operator: OperatorState,
    state: str,
    source: SnapshotReader,
    *,
    key_groups: KeyGroupRange | None = None,
    subtask: int | None = None,
) -> Iterator[SubtaskRows]:
    """The rows of one state, some at a time, subtask by subtask. None selects all key groups, or all subtasks.

    `key_groups` excludes operator state, which has none.
    """
    if subtask is not None and not 0 <= subtask < operator.parallelism:
        raise ConfigurationError(
            f"operator {operator.uid!r} has no subtask {subtask}, but 0 to {operator.parallelism - 1}"
        )
    for index, contributed in operator.subtasks.items():
        if subtask is not None and index != subtask:
            continue
        for part in contributed.keyed:
            if key_groups is not None and not part.key_groups.intersection(key_groups):
                continue
            if part.native is not None:
                yield from _native_rows(index, part, state, source, key_groups)
                continue
            for item in part.objects:
                yield from _file_rows(index, item, state, source, key_groups)
        if key_groups is None:
            for operator_part in contributed.operator:
                yield from _file_rows(index, operator_part.object, state, source, None)


def _file_rows(
    subtask: int, item: StoredObject, state: str, source: SnapshotReader, key_groups: KeyGroupRange | None
) -> Iterator[SubtaskRows]:
    with snapshot_files.named_damage(item), source.open(item) as file:
        info = state_files.describe(file).info
        if info.state == state:
            for table in state_files.iterate(file, key_groups):
                yield SubtaskRows(subtask, info, table)


def _native_rows(
    subtask: int, part: KeyedPart, state: str, source: SnapshotReader, key_groups: KeyGroupRange | None
) -> Iterator[SubtaskRows]:
    """Fetch the files of a backend, open them as a database and read rows as a state file would have them."""
    listing = snapshot_files.read_listing(part, source)
    for entry in listing.states:
        if entry.info.state == state:
            groups = part.key_groups if key_groups is None else part.key_groups.intersection(key_groups)
            with (
                snapshot_files.named_damage(part.objects[0]),
                snapshot_files.library_damage(part.objects[0]),
                saved_database(listing, part.objects[1:], source) as database,
            ):
                for table in read_state(database, entry, groups):
                    yield SubtaskRows(subtask, entry.info, table)
