"""State handles with one value per key: value, reducing and aggregating state.

All handles have calls for the current key, and vectorised ones for all keys of a batch. Keys of a batch are the result
of the backend's `keys(...)`, which hashes them once for all states, or its argument. A `namespace`, where the state was
declared with one, is an array with a value for each row, or one value for all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.arrays import Values, objects
from snapline.state.exact_cast import converted
from snapline.state.groups import Groups
from snapline.state.key_scope import Keys
from snapline.state.state_types import StateType
from snapline.state.value_cells import UNKNOWN, ValueCells
from snapline.text import shortened

A = TypeVar("A")


class ValueState:
    """One value for each key. None is no value: setting it removes the value."""

    def __init__(self, cells: ValueCells, default: Any = None) -> None:
        self._scope = cells.scope
        self._table = cells.table
        self._cells = cells
        self._convert = cells.python.convert
        self._copy = cells.python.copy
        self._default = default

    # For the current key.

    def get(self) -> Any:
        """The value, or the default the state was declared with."""
        cells = self._cells
        if cells.expire:
            cells.renew()
        owner = cells.cursor.owner
        value = cells.values.get(owner, UNKNOWN)
        if value is UNKNOWN:
            value = cells.fetch(owner)
        if value is None:
            # A copy, since the caller may change it.
            return None if self._default is None else deepcopy(self._default)
        return value if self._copy is None else self._copy(value)

    def set(self, value: Any) -> None:
        cells = self._cells
        if cells.expire:
            cells.renew()
        owner = cells.cursor.owner
        if owner is None:
            cells.cursor.refuse()
        cells.values[owner] = None if value is None else self._convert(value)
        cells.changed[owner] = None

    def clear(self) -> None:
        self.set(None)

    # For all keys of a batch.

    def take(self, keys: Keys, namespace: Any = None) -> Values:
        """The value of each key, or null."""
        rows = self._scope.rows(keys, namespace)
        slots = rows.slots(self._table.space, add=self._table.is_cache)
        return self._table.read(slots)

    def put(self, keys: Keys, values: Values, namespace: Any = None) -> None:
        """Set the value of each key. Where a key comes twice, the last value wins. Nulls remove."""
        rows = self._scope.rows(keys, namespace)
        self._table.write(rows.slots(self._table.space, add=True), values)

    def update(self, keys: Keys, function: Callable[[Values, Groups], Values], namespace: Any = None) -> None:
        """Replace the value of each distinct key by what `function` returns for it.

        The function is called once, with the values of the distinct keys (null where there is none) and the `Groups`
        that say which rows belong to which key; it returns the new values in the same order.
        """
        rows, space = self._scope.rows(keys, namespace), self._table.space
        distinct, indices = space.distinct(rows.slots(space, add=True))
        groups, version, erasures = Groups(len(distinct), indices), space.version, self._table.erasures
        old, all_present = self._table.read_if_present(distinct)
        values = function(old, groups)
        if not hasattr(values, "__len__"):
            raise UserCodeError(
                f"the function given to `update` returned {shortened(values)}; it must return an array or a list"
            )
        if len(values) != groups.count:
            raise UserCodeError(
                f"the function given to `update` returned {len(values)} values for {groups.count} keys; "
                "it must return one for each group"
            )
        self._scope.settle()
        if space.version != version:
            # The function used other states, and slots were renumbered to make room.
            distinct, _ = space.distinct(rows.slots(space, add=True))
        self._table.write(distinct, values, all_present=all_present and self._table.erasures == erasures)

    def merge(self, reduce: str, keys: Keys, values: Values, namespace: Any = None) -> bool:
        """Merge one value for each row, in place. Returns False, with nothing changed, if that is not possible."""
        rows = self._scope.rows(keys, namespace)
        return self._table.merge(reduce, rows.slots(self._table.space, add=True), values)

    def delete(self, keys: Keys, namespace: Any = None) -> None:
        """Remove the values of keys."""
        rows = self._scope.rows(keys, namespace)
        self._table.erase(rows.slots(self._table.space, add=self._table.is_cache))


Reduce: TypeAlias = str | Callable[[Any, Any], Any]
"""How two values become one: "sum", "min", "max", "first" or "last" (all vectorised), or a function of two values."""

_MERGES: dict[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "min": pc.min_element_wise,
    "max": pc.max_element_wise,
    "first": pc.coalesce,
    "last": lambda old, new: pc.coalesce(new, old),
}
_SCALAR_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "min": lambda old, new: new if new < old or old != old else old,  # numbers win over NaN
    "max": lambda old, new: new if new > old or old != old else old,
    "first": lambda old, _: old,
    "last": lambda _, new: new,
}
REDUCERS = tuple(_SCALAR_MERGES)


def check_reducer(name: str, reduce: Reduce, kind: StateType) -> None:
    """Raise `ConfigurationError` if a state of this type cannot have this reducer."""
    if callable(reduce):
        return
    arrow = kind.arrow
    is_known = isinstance(reduce, str) and reduce in REDUCERS and arrow is not None
    is_number = is_known and (pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow))
    is_ordered = is_number or (is_known and not pa.types.is_nested(arrow) and not pa.types.is_boolean(arrow))
    if not is_known or (reduce == "sum" and not is_number) or (reduce in ("min", "max") and not is_ordered):
        raise ConfigurationError(
            f"state {name!r} of {kind} cannot reduce by {reduce!r}; use one of {', '.join(REDUCERS)} with a declared "
            "type that has it, or a function of two values"
        )


def _summed(old: pa.Array, groups: Groups, values: Any) -> pa.Array:
    """Old values with new ones added. Without either there is no sum, not even 0."""
    total = groups.sum(values, old)
    if not old.null_count:
        return total
    added = groups.sum(converted(values, old.type).is_valid())
    return pc.if_else(pc.or_(old.is_valid(), pc.greater(added, 0)), total, None)


class ReducingState:
    """One value for each key; every added value is merged into it."""

    def __init__(self, values: ValueState, reduce: Reduce) -> None:
        self._values = values
        self._reduce = reduce

    def get(self) -> Any:
        return self._values.get()

    def add(self, value: Any) -> None:
        old = self._values.get()
        if old is None:
            self._values.set(value)
        elif value is not None:
            reduce = _SCALAR_MERGES[self._reduce] if isinstance(self._reduce, str) else self._reduce
            self._values.set(reduce(old, value))

    def clear(self) -> None:
        self._values.clear()

    def take(self, keys: Keys, namespace: Any = None) -> Values:
        """The merged value of each key, or null."""
        return self._values.take(keys, namespace)

    def add_all(self, keys: Keys, values: Any, namespace: Any = None) -> None:
        """Add one value for each row."""
        reduce = self._reduce
        if isinstance(reduce, str) and self._values.merge(reduce, keys, values, namespace):
            return
        if reduce == "sum":
            self._values.update(keys, lambda old, groups: _summed(old, groups, values), namespace)
            return
        if isinstance(reduce, str):
            merge = _MERGES[reduce]
            self._values.update(
                keys, lambda old, groups: merge(old, converted(getattr(groups, reduce)(values), old.type)), namespace
            )
            return

        def merged(old: Values, groups: Groups) -> list[Any]:
            result = objects(old)
            for group, value in _by_group(groups, values):
                result[group] = value if result[group] is None else reduce(result[group], value)
            return result

        self._values.update(keys, merged, namespace)

    def delete(self, keys: Keys, namespace: Any = None) -> None:
        self._values.delete(keys, namespace)


class AggregateFunction(Protocol, Generic[A]):
    """How values become an accumulator, and an accumulator a result."""

    def create(self) -> A:
        """Returns an empty accumulator."""
        ...

    def add(self, accumulator: A, value: Any) -> A:
        """Returns the accumulator with one more value; may be the same object."""
        ...

    def result(self, accumulator: A) -> Any: ...


class AggregatingState(Generic[A]):
    """An accumulator for each key."""

    def __init__(self, values: ValueState, function: AggregateFunction[A]) -> None:
        self._values = values
        self._function = function

    def get(self) -> Any:
        """The result so far, or None if nothing was added."""
        accumulator = self._values.get()
        return None if accumulator is None else self._function.result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            return
        accumulator = self._values.get()
        self._values.set(self._function.add(self._function.create() if accumulator is None else accumulator, value))

    def clear(self) -> None:
        self._values.clear()

    def take(self, keys: Keys, namespace: Any = None) -> list[Any]:
        """The result for each key, or None if nothing was added."""
        accumulators = objects(self._values.take(keys, namespace))
        return [None if item is None else self._function.result(item) for item in accumulators]

    def add_all(self, keys: Keys, values: Any, namespace: Any = None) -> None:
        """Add one value for each row."""

        def added(old: Values, groups: Groups) -> list[Any]:
            result = objects(old)
            for group, value in _by_group(groups, values):
                accumulator = self._function.create() if result[group] is None else result[group]
                result[group] = self._function.add(accumulator, value)
            return result

        self._values.update(keys, added, namespace)

    def delete(self, keys: Keys, namespace: Any = None) -> None:
        self._values.delete(keys, namespace)


def _by_group(groups: Groups, values: Any) -> Iterator[tuple[int, Any]]:
    """Each value that is not null, with its group."""
    indices = range(groups.count) if groups.indices is None else groups.indices.tolist()
    items = objects(values)
    if len(items) != len(indices):
        raise UserCodeError(f"{len(items)} values for {len(indices)} keys; give one for each")
    return ((group, item) for group, item in zip(indices, items, strict=True) if item is not None)
