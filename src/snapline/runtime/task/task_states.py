"""Creates the empty state of an operator in the configured backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from snapline.config import Execution, StateBackend
from snapline.errors import ConfigurationError
from snapline.graph.execution_plan import Key, PlannedOperator
from snapline.protocol.keygroups import KeyGroupRange, key_group_range
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.raw_keyed_state import RawKeyedState
from snapline.state.subtask_states import SubtaskStates


def make_states(
    planned: PlannedOperator,
    *,
    subtask: int,
    parallelism: int,
    max_parallelism: int,
    execution: Execution,
    directory: Callable[[], Path],
    clock: Callable[[], int],
) -> SubtaskStates:
    """`directory` names one of the operator's own on this machine, not created yet."""
    operator = OperatorStates(planned.uid, subtask, parallelism)
    if planned.key is None:
        return SubtaskStates(operator)
    groups = key_group_range(max_parallelism, parallelism, subtask)
    keyed = _backend(planned.key, planned.uid, groups, max_parallelism, execution, directory, clock)
    return SubtaskStates(operator, keyed, RawKeyedState(planned.uid, groups, max_parallelism))


def _backend(
    key: Key,
    uid: str,
    groups: KeyGroupRange,
    max_parallelism: int,
    execution: Execution,
    directory: Callable[[], Path],
    clock: Callable[[], int],
) -> KeyedBackend:
    if execution.state_backend is StateBackend.MEMORY:
        return MemoryBackend(key.type, max_parallelism=max_parallelism, key_groups=groups, clock=clock, uid=uid)
    try:
        from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
        from snapline.state.rocksdb.state_memory import process_memory
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"state_backend='rocksdb' needs the package {error.name!r}, which is not installed where the tasks run; "
            "install snapline[rocksdb] there"
        ) from error
    limit_bytes = execution.state_memory_bytes
    return RocksDbBackend(
        key.type,
        max_parallelism=max_parallelism,
        key_groups=groups,
        clock=clock,
        uid=uid,
        directory=directory(),
        max_cached_entries=execution.state_cache_entries,
        memory=None if limit_bytes is None else process_memory(limit_bytes),
    )


def state_memory_used_bytes(execution: Execution) -> int | None:
    """What state in RocksDB takes in this process; None without a limit."""
    if execution.state_memory_bytes is None:
        return None
    from snapline.state.rocksdb.state_memory import process_memory

    return process_memory(execution.state_memory_bytes).used_bytes
