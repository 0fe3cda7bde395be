"""Properties of operator state: whatever it holds survives snapshots and restores at any parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.protocol.restore.restore_plan import RestoreVertex, SubtaskRestore, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot, SubtaskState
from snapline.state.operator_state import OperatorStates
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.types import SnapshotKind, SubtaskId

UID = "op"
parallelisms = st.integers(1, 5)
objects = st.one_of(st.integers(), st.text(max_size=5), st.tuples(st.integers(), st.floats(allow_nan=False)), st.none())
ELEMENTS: dict[Any, st.SearchStrategy[Any]] = {
    object: objects,
    "bigint": st.integers(-(2**63), 2**63 - 1) | st.none(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "a int, b array<double>": st.fixed_dictionaries(
        {"a": st.integers(-5, 5), "b": st.lists(st.floats(allow_nan=False), max_size=3)}
    ),
    "map<string,boolean>": st.dictionaries(st.sampled_from("abc"), st.booleans()),
}
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@dataclass(frozen=True)
class Lists:
    """Named lists of one mode: the type of each, and its elements in every old subtask."""

    types: dict[str, Any]
    lists: dict[str, list[list[Any]]]


@st.composite
def lists(draw: st.DrawFn) -> Lists:
    types = draw(st.dictionaries(names, st.sampled_from(list(ELEMENTS)), min_size=1, max_size=3))
    parallelism = draw(parallelisms)
    elements = {
        name: draw(
            st.lists(st.lists(ELEMENTS[declared], max_size=6), min_size=parallelism, max_size=parallelism), label=name
        )
        for name, declared in types.items()
    }
    return Lists(types, elements)


def restart(subtasks: Sequence[OperatorStates], parallelism: int) -> list[OperatorStates]:
    """The operator after a snapshot, and a restore at another parallelism."""
    no_store = cast(ObjectStore, None)
    parts = {}
    for index, states in enumerate(subtasks):
        target = SnapshotWriter(no_store, None, None, attempt=1, checkpoint_id=1, uid=UID, subtask=index)
        parts[index] = SubtaskState(operator=states.snapshot().write(target))
    state = OperatorState(UID, len(subtasks), 128, parts)
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, "chk-1", {UID: state})
    plan = plan_restore(snapshot, [RestoreVertex("v", parallelism, (UID,))], [])
    result = []
    for index in range(parallelism):
        states = OperatorStates(UID, index)
        restored = plan.subtasks[SubtaskId("v", index)].get(UID, SubtaskRestore())
        states.restore(restored.operator, SnapshotReader(no_store))
        result.append(states)
    return result


def started(count: int) -> list[OperatorStates]:
    return [OperatorStates(UID, index) for index in range(count)]


def old_parallelism(given: Lists) -> int:
    return len(next(iter(given.lists.values())))


def split_contents(subtasks: Sequence[OperatorStates], types: dict[str, Any]) -> dict[str, list[list[Any]]]:
    return {name: [states.list_state(name, kind).get() for states in subtasks] for name, kind in types.items()}


def flat(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [element for part in parts for element in part]


@settings(max_examples=25)
@given(lists(), parallelisms, parallelisms, st.booleans())
def test_every_element_of_a_split_list_is_restored_once_and_in_order(
    given: Lists, second: int, third: int, declared_between: bool
) -> None:
    subtasks = started(old_parallelism(given))
    for name, kind in given.types.items():
        for states, elements in zip(subtasks, given.lists[name], strict=True):
            states.list_state(name, kind).extend(elements)
    between = split_contents(restart(subtasks, second), given.types)
    subtasks = restart(subtasks, second)
    if declared_between:
        assert split_contents(subtasks, given.types) == between
    after = split_contents(restart(subtasks, third), given.types)
    for name in given.types:
        assert is_dealt_out(given.lists[name], between[name])
        assert is_dealt_out(between[name], after[name])


def is_dealt_out(before: list[list[Any]], after: list[list[Any]]) -> bool:
    """Whether the parts are even and, read from some subtask on, keep the order of the elements."""
    if len(before) == len(after):
        return before == after
    sizes = [len(part) for part in after]
    rotations = (flat(after[start:] + after[:start]) for start in range(len(after)))
    return max(sizes) - min(sizes) <= 1 and flat(before) in rotations


@settings(max_examples=40)
@given(lists(), parallelisms, parallelisms, st.booleans())
def test_every_subtask_gets_all_of_a_union_list(given: Lists, second: int, third: int, declared_between: bool) -> None:
    subtasks = started(old_parallelism(given))
    for name, kind in given.types.items():
        for states, elements in zip(subtasks, given.lists[name], strict=True):
            states.union_list_state(name, kind).extend(elements)
    subtasks = restart(subtasks, second)
    everything = {name: flat(parts) for name, parts in given.lists.items()}
    if declared_between:
        for index, states in enumerate(subtasks):
            for name, kind in given.types.items():
                state = states.union_list_state(name, kind)
                assert state.get() == everything[name]
                size = -(-len(everything[name]) // second)
                state.set(everything[name][index * size : (index + 1) * size])
    for states in restart(subtasks, third):
        for name, kind in given.types.items():
            assert states.union_list_state(name, kind).get() == everything[name]


@settings(max_examples=40)
@given(
    st.sampled_from([(object, object), ("string", object), (object, "bigint"), ("string", "map<string,boolean>")]),
    st.data(),
    parallelisms,
    parallelisms,
    parallelisms,
    st.booleans(),
)
def test_every_subtask_gets_a_copy_of_broadcast_state(
    types: tuple[Any, Any], data: st.DataObject, first: int, second: int, third: int, declared_between: bool
) -> None:
    pairs = data.draw(st.lists(st.tuples(ELEMENTS[types[0]], ELEMENTS[types[1]]), max_size=6))
    subtasks = started(first)
    for states in subtasks:
        state = states.broadcast_state("rules", *types)
        for key, value in pairs:
            state.put(key, value)
    expected = list(dict(pairs).items())
    subtasks = restart(subtasks, second)
    if declared_between:
        assert [states.broadcast_state("rules", *types).items() for states in subtasks] == [expected] * second
    subtasks = restart(subtasks, third)
    assert [states.broadcast_state("rules", *types).items() for states in subtasks] == [expected] * third


@settings(max_examples=25)
@given(st.lists(st.lists(st.binary(max_size=8), max_size=5), min_size=1, max_size=5), parallelisms, parallelisms)
def test_raw_elements_are_split_like_others_and_carried_on_unread(
    given: list[list[bytes]], second: int, third: int
) -> None:
    subtasks = started(len(given))
    for states, elements in zip(subtasks, given, strict=True):
        for element in elements:
            states.raw_state().write(element)
    subtasks = restart(restart(subtasks, second), third)
    assert sorted(flat([states.raw_state().read() for states in subtasks])) == sorted(flat(given))
