"""Operator state of one subtask: handles, declarations, snapshots and restores."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import ConfigurationError, DamagedError, EngineError, RestoreError, UserCodeError
from snapline.protocol.restore.redistribution import ElementRange
from snapline.protocol.snapshot import OperatorPart
from snapline.state import operator_state
from snapline.state.operator_snapshot import OperatorSnapshot
from snapline.state.operator_state import OperatorStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotCancelledError, SnapshotWriter, WriteOptions
from snapline.types import OperatorStateMode

UTC = datetime.UTC
NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)


class Objects(MemoryObjects):
    """A store that counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int]] = []

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.reads.append((path, offset))
        return super().read(path, offset, length)

    def paths(self) -> list[str]:
        return [info.path for info in self.list("memory://job")]


def target(objects: Objects, *, inline_bytes: int = 0, zstd: bool = False) -> SnapshotWriter:
    options = WriteOptions(inline_bytes, zstd)
    place = f"memory://job/{uuid.uuid4()}"
    return SnapshotWriter(objects, place, None, attempt=1, checkpoint_id=1, uid="op", subtask=0, options=options)


def written(states: OperatorStates, objects: Objects | None = None) -> tuple[OperatorPart, ...]:
    return states.snapshot().write(target(objects or Objects(), inline_bytes=1 << 20 if objects is None else 0))


def refs(parts: Sequence[OperatorPart]) -> dict[str, tuple[ElementRange, ...]]:
    return {part.name: (ElementRange(part.object, 0, part.elements),) for part in parts}


def restored(
    elements: Mapping[str, Sequence[ElementRange]], objects: Objects | None = None, subtask: int = 0
) -> OperatorStates:
    states = OperatorStates("op", subtask)
    states.restore(elements, SnapshotReader(objects or Objects()))
    return states


def again(states: OperatorStates, subtask: int = 0) -> OperatorStates:
    """The states after a snapshot and a restore."""
    return restored(refs(written(states)), subtask=subtask)


# --- handles ---------------------------------------------------------------------------------------------------------


def test_a_list_holds_what_was_added_in_order() -> None:
    state = OperatorStates("op", 0).list_state("offsets", int)
    state.add(3)
    state.extend([1, 2])
    assert state.get() == [3, 1, 2] == list(state)
    assert len(state) == 3
    state.set(iter([7]))
    assert state.get() == [7]
    state.clear()
    assert state.get() == []


def test_the_list_that_is_given_out_is_a_copy() -> None:
    state = OperatorStates("op", 0).list_state("offsets")
    state.get().append(1)
    for element in state:
        state.add(element)
    assert state.get() == []


def test_a_broadcast_map() -> None:
    state = OperatorStates("op", 0).broadcast_state("rules", str, "double")
    state.put("a", 1)
    state.put("b", 2.5)
    assert (state.get("a"), state.get("x"), state.get("x", 9)) == (1.0, None, 9)
    assert state.contains("b")
    assert "b" in state
    assert (state.keys(), list(state), len(state)) == (["a", "b"], ["a", "b"], 2)
    state.remove("a")
    state.remove("a")
    assert state.items() == [("b", 2.5)]
    state.clear()
    assert state.items() == []


def test_keys_must_be_hashable() -> None:
    state = OperatorStates("op", 0).broadcast_state("rules")
    for use in (lambda: state.put([1], 2), lambda: state.get({}), lambda: state.contains([])):
        with pytest.raises(UserCodeError, match=r"state 'rules': .* cannot be a key"):
            use()


@pytest.mark.parametrize(
    ("declared", "value", "problem"),
    [
        (int, "x", "'x' is no value of type int64"),
        (int, 1.5, "1.5 would become 1"),
        ("tinyint", 300, "300 is no value of type int8"),
        (str, b"x", "b'x' would become 'x'"),
        (datetime.datetime, NOON.replace(tzinfo=None), "would become datetime.datetime"),
        ("array<int>", [1, 2.5], "2.5 would become 2"),
        ("a int, b int not null", {"a": 1}, "'b' may not be null"),
        ("a int", {"a": 1, "c": 2}, "it has no field 'c'"),
        ("float", 1e300, "1e[+]300 is too large"),
        ("map<string,int>", [("a", 1), ("a", 2)], "duplicate key was 'a'"),
        (str, "x" * 1000 + "\ud800", r"'x{199}\.\.\. is no value"),
    ],
)
def test_a_wrong_value_is_refused_and_changes_nothing(declared: object, value: Any, problem: str) -> None:
    states = OperatorStates("op", 0)
    elements, rules = states.list_state("list", declared), states.broadcast_state("map", declared, declared)
    uses: list[Callable[[], None]] = [
        lambda: elements.add(value),
        lambda: elements.extend([None, value]),
        lambda: elements.set([None, value]),
        lambda: rules.put("", value),
        lambda: rules.put(value, None),
    ]
    for use in uses:
        with pytest.raises(UserCodeError, match=r"operator 'op', state '(list|map)': ") as caught:
            use()
        assert "type" in str(caught.value)
    with pytest.raises(UserCodeError, match=problem):
        elements.add(value)
    assert len(elements) == len(rules) == 0


def test_values_are_the_same_before_and_after_a_restore() -> None:
    values: dict[str, list[Any]] = {
        "map<string,array<int>>": [{"a": [1, 2], "b": []}, {}],
        "a int, b struct<c:string>": [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, (3, ("y",))],
        "timestamp": [NOON, NOON.astimezone(datetime.timezone(datetime.timedelta(hours=3)))],
        "decimal(10,2)": [3],
        "float": [0.1],
        "interval day to second": [datetime.timedelta(days=-1, microseconds=1)],
        "time": [datetime.time(1, 2, 3, 4)],
        "binary": [b"", bytearray(b"x")],
    }
    states = OperatorStates("op", 0)
    before = {}
    for declared, elements in values.items():
        state = states.list_state(declared, declared)
        state.extend([*elements, None])
        before[declared] = state.get()
    after = again(states)
    assert {declared: after.list_state(declared, declared).get() for declared in values} == before
    assert before["map<string,array<int>>"][0] == {"a": [1, 2], "b": []}
    assert before["a int, b struct<c:string>"][2] == {"a": 3, "b": {"c": "y"}}


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (pa.timestamp("s"), datetime.datetime(2024, 1, 1)),
        (pa.time32("s"), datetime.time(1)),
        (pa.date64(), datetime.date(2024, 1, 1)),
        (pa.month_day_nano_interval(), pa.MonthDayNano([1, 2, 3])),
        (pa.list_(pa.int8(), 2), [1, 2]),
        (pa.binary(2), b"ab"),
        (pa.uint64(), 2**64 - 1),
        (pa.float16(), 1.5),
        (pa.large_list(pa.string_view()), ["a"]),
    ],
)
def test_arrow_types_that_spark_has_not(declared: pa.DataType, value: Any) -> None:
    states = OperatorStates("op", 0)
    states.list_state("s", declared).add(value)
    assert again(states).list_state("s", declared).get() == [value]


# --- declaring -------------------------------------------------------------------------------------------------------


def test_declaring_again_gives_the_same_handle() -> None:
    states = OperatorStates("op", 0)
    assert states.list_state("a", int) is states.list_state("a", "bigint")
    assert states.raw_state() is states.raw_state("raw")
    states.list_state("b", pa.list_(pa.field("item", pa.int32())))
    states.list_state("b", pa.list_(pa.field("element", pa.int32())))


def test_declaring_a_name_as_something_else_is_an_error() -> None:
    states = OperatorStates("op", 0)
    states.list_state("a", int)
    states.broadcast_state("b", str, int)
    for use, now in (
        (lambda: states.list_state("a", "int"), "a list of int32"),
        (lambda: states.list_state("a"), "a list of any Python object"),
        (lambda: states.union_list_state("a", int), "a union list of int64"),
        (lambda: states.broadcast_state("a", str, int), "a broadcast map of string to int64"),
        (lambda: states.raw_state("a"), "raw state"),
    ):
        with pytest.raises(ConfigurationError, match=f"state 'a' as {now}, but it was declared as a list of int64"):
            use()
    with pytest.raises(ConfigurationError, match="'b' as a broadcast map of string to int32, but"):
        states.broadcast_state("b", str, "int")


def test_names_and_their_number_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_state, "MAX_STATES", 2)
    states = OperatorStates("op", 0)
    with pytest.raises(ConfigurationError, match="has no name"):
        states.list_state("")
    states.list_state("a")
    states.list_state("b")
    states.list_state("a")
    with pytest.raises(ConfigurationError, match="more than 2 states"):
        states.list_state("c")


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_snapshot() -> None:
    states = OperatorStates("op", 0)
    states.list_state("split", int).extend([1, 2])
    states.union_list_state("union").add(object)
    states.broadcast_state("map", int, int).put(1, 2)
    states.raw_state().write(b"x")
    states.list_state("empty")
    states.broadcast_state("empty map")
    assert [(part.name, part.mode, part.elements, part.raw) for part in written(states)] == [
        ("split", OperatorStateMode.SPLIT, 2, False),
        ("union", OperatorStateMode.UNION, 1, False),
        ("map", OperatorStateMode.BROADCAST, 1, False),
        ("raw", OperatorStateMode.SPLIT, 1, True),
        ("empty map", OperatorStateMode.BROADCAST, 0, False),
    ]


def test_nothing_is_written_for_nothing() -> None:
    objects, states = Objects(), OperatorStates("op", 0)
    assert written(states, objects) == ()
    states.list_state("empty")
    assert written(states, objects) == ()
    assert objects.paths() == []


def test_an_empty_union_list_is_reported_so_that_everyone_knows_of_it() -> None:
    states = OperatorStates("op", 1)
    states.union_list_state("all", int)
    (part,) = written(states)
    assert (part.name, part.mode, part.elements) == ("all", OperatorStateMode.UNION, 0)
    assert again(states).union_list_state("all", int).get() == []


def test_a_union_list_is_declared_while_the_operator_opens() -> None:
    states = OperatorStates("op", 0)
    known = states.union_list_state("all", int)
    states.opened()
    assert states.union_list_state("all", int) is known
    assert states.list_state("some", int).get() == []
    with pytest.raises(ConfigurationError, match=r"declares the union list 'late' too late.*declare it in open\(\)"):
        states.union_list_state("late", int)


def test_all_states_are_in_one_file_and_each_is_read_once() -> None:
    objects, states = Objects(), OperatorStates("op", 0)
    states.list_state("a", int).extend(range(10))
    states.list_state("b").extend(range(10))
    parts = written(states, objects)
    assert len(objects.paths()) == 1
    after = restored(refs(parts), objects)
    assert after.list_state("a", int).get() == after.list_state("b").get() == list(range(10))
    assert sorted(objects.reads) == sorted((part.object.path, part.object.offset) for part in parts)


def test_only_the_elements_that_were_dealt_out_are_taken_in_their_order() -> None:
    objects = Objects()
    lists = []
    for values in ("abc", "def"):
        states = OperatorStates("op", 0)
        states.list_state("s", str).extend(values)
        lists.append(refs(written(states, objects))["s"])
    (first,), (second,) = lists
    chosen = [
        ElementRange(item.object, start, stop)
        for item, start, stop in ((first, 2, 3), (second, 0, 2), (first, 2, 3), (first, 0, 1))
    ]
    assert restored({"s": chosen}, objects).list_state("s", str).get() == ["c", "d", "e", "c", "a"]
    assert sorted(objects.reads) == sorted((elements[0].object.path, 0) for elements in lists)


def test_what_changes_after_the_snapshot_is_not_in_it() -> None:
    states = OperatorStates("op", 0)
    anything, typed = states.list_state("any"), states.list_state("typed", "array<int>")
    mutable: list[int] = [1]
    anything.add(mutable)
    typed.add([1])
    snapshot = states.snapshot()
    mutable.append(2)
    anything.add(3)
    typed.get()[0].append(2)
    parts: list[OperatorPart] = []
    thread = threading.Thread(target=lambda: parts.extend(snapshot.write(target(Objects(), inline_bytes=1 << 20))))
    thread.start()
    thread.join()
    after = restored(refs(parts))
    assert after.list_state("any").get() == [[1]]
    assert after.list_state("typed", "array<int>").get() == [[1]]
    assert again(states).list_state("any").get() == [[1, 2], 3]


def test_a_value_that_was_spoilt_after_it_was_added() -> None:
    states = OperatorStates("op", 0)
    state = states.list_state("typed", "array<int>")
    state.add([1])
    state.get()[0].append("x")
    with pytest.raises(UserCodeError, match="operator 'op', state 'typed'"):
        states.snapshot()


def test_what_cannot_be_pickled() -> None:
    states = OperatorStates("op", 0)
    states.list_state("any").add(lambda: None)
    with pytest.raises(UserCodeError, match=r"operator 'op', state 'any': <function .* cannot be pickled"):
        states.snapshot()


def test_a_cancelled_snapshot_is_given_up() -> None:
    states = OperatorStates("op", 0)
    states.list_state("a").add(1)
    cancelled = target(Objects())
    cancelled.cancel()
    with pytest.raises(SnapshotCancelledError):
        states.snapshot().write(cancelled)


def test_compression() -> None:
    states = OperatorStates("op", 0)
    states.list_state("a", str).extend(["a" * 1000 + str(number) for number in range(100)])
    snapshot: OperatorSnapshot = states.snapshot()
    plain, compressed = (snapshot.write(target(Objects(), zstd=zstd))[0].object.size_bytes for zstd in (False, True))
    assert compressed < plain / 10


def test_raw_state_is_written_anew_for_every_snapshot() -> None:
    states = OperatorStates("op", 0)
    raw = states.raw_state()
    raw.write(b"a")
    raw.write(b"")
    after = again(states).raw_state()
    assert after.read() == [b"a", b""] == after.read()
    assert raw.read() == []
    assert written(states) == ()
    with pytest.raises(UserCodeError, match="state 'raw': 'text'"):
        raw.write("text")  # type: ignore[arg-type]


# --- restoring -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "declared", "values"),
    [
        ("int", "bigint", [1, None]),
        ("tinyint", "int", [-128]),
        ("float", "double", [0.5]),
        (pa.string(), pa.large_string(), ["a"]),
    ],
)
def test_a_wider_type_takes_over(stored: object, declared: object, values: list[Any]) -> None:
    states = OperatorStates("op", 0)
    states.list_state("s", stored).extend(values)
    states.broadcast_state("map", stored, stored).put(values[0], values[0])
    after = again(states)
    assert after.list_state("s", declared).get() == values
    assert after.broadcast_state("map", declared, stored).items() == [(values[0], values[0])]


def test_structs_may_change_their_fields_but_keys_may_not() -> None:
    states = OperatorStates("op", 0)
    states.list_state("s", "a INT, b STRING").extend([{"a": 1, "b": "x"}, None])
    states.broadcast_state("map", "int", "a INT").put(1, {"a": 2})
    after = again(states)
    assert after.list_state("s", "c DOUBLE, a BIGINT").get() == [{"c": None, "a": 1}, None]
    assert after.broadcast_state("map", "bigint", "a INT, b INT").items() == [(1, {"a": 2, "b": None})]


@pytest.mark.parametrize(
    ("stored", "declared"),
    [("bigint", "int"), ("int", "double"), ("int", object), (object, "binary"), ("array<bigint>", "array<int>")],
)
def test_another_type_is_refused_and_the_state_is_kept(stored: object, declared: object) -> None:
    states = OperatorStates("op", 0)
    states.list_state("s", stored).add(None)
    states.broadcast_state("map", stored, stored).put(None, None)
    after = again(states)
    with pytest.raises(RestoreError, match=r"'s' as a list of .*, but in the snapshot it is a list of .*; declare it"):
        after.list_state("s", declared)
    with pytest.raises(RestoreError, match="in the snapshot it is a broadcast map of"):
        after.broadcast_state("map", declared, stored)
    with pytest.raises(RestoreError, match="in the snapshot it is a broadcast map of"):
        after.broadcast_state("map", stored, declared)
    with pytest.raises(RestoreError, match=r"as a union list of .*, but in the snapshot it is a list of"):
        after.union_list_state("s", stored)
    assert after.list_state("s", stored).get() == [None]


def test_state_that_is_not_declared_is_carried_on() -> None:
    states = OperatorStates("op", 0)
    states.list_state("split", int).extend([1, 2])
    states.list_state("any").add({"a": NOON})
    states.broadcast_state("map").put((1, "a"), [1])
    states.broadcast_state("typed map", str, int).put("a", 1)
    states.union_list_state("union", int).add(1)
    states.raw_state().write(b"x")
    for _ in range(3):
        states = again(states)
    assert states.list_state("split", int).get() == [1, 2]
    states.list_state("split", int).add(3)
    states = again(states)
    assert states.list_state("split", int).get() == [1, 2, 3]
    assert states.list_state("any").get() == [{"a": NOON}]
    assert states.broadcast_state("map").items() == [((1, "a"), [1])]
    assert states.broadcast_state("typed map", str, int).items() == [("a", 1)]
    assert states.union_list_state("union", int).get() == [1]
    assert states.raw_state().read() == [b"x"]


def test_a_union_list_that_is_not_declared_is_carried_on_by_one_subtask_alone() -> None:
    states = OperatorStates("op", 0)
    states.union_list_state("union", int).add(1)
    assert [len(written(again(states, subtask))) for subtask in range(3)] == [1, 0, 0]


def test_an_unknown_class_is_only_missed_when_the_state_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    vanishing = type("Vanishing", (), {"__module__": __name__})
    monkeypatch.setitem(globals(), "Vanishing", vanishing)
    states = OperatorStates("op", 0)
    states.list_state("any").add(vanishing())
    parts = written(states)
    monkeypatch.delitem(globals(), "Vanishing")
    after = again(restored(refs(parts)))
    with pytest.raises(RestoreError, match=r"'any': an object of a state cannot be unpickled .*Vanishing"):
        after.list_state("any")


def test_elements_of_one_list_that_have_different_types() -> None:
    objects = Objects()

    def part(declared: object, value: Any) -> list[ElementRange]:
        states = OperatorStates("op", 0)
        states.list_state("s", declared).add(value)
        return list(refs(written(states, objects))["s"])

    narrow, wide, other = part("int", 1), part("bigint", 2), part("string", "x")
    assert restored({"s": narrow + wide + narrow}, objects).list_state("s", int).get() == [1, 2, 1]
    with pytest.raises(RestoreError, match="different types: a list of int32 and a list of string"):
        restored({"s": narrow + other}, objects)


def test_an_element_that_is_not_there() -> None:
    states = OperatorStates("op", 0)
    states.list_state("s").add(1)
    (part,) = written(states)
    with pytest.raises(DamagedError, match="does not have the 2 elements"):
        restored({"s": [ElementRange(part.object, 1, 2)]})


def test_state_is_restored_first_and_once() -> None:
    states = OperatorStates("op", 0)
    states.list_state("s").add(1)
    elements = refs(written(states))
    source = SnapshotReader(Objects())
    with pytest.raises(EngineError, match="before it is declared"):
        states.restore(elements, source)
    after = restored(elements)
    with pytest.raises(EngineError, match="and once"):
        after.restore(elements, source)
    assert restored({"s": ()}).list_state("s").get() == []
