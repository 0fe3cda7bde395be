"""What all machines share: the table that drives and documents them, and the story that their errors carry."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import wraps
from operator import attrgetter
from types import UnionType
from typing import (
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
)

from snapline.errors import EngineError, IllegalTransitionError

STORY_EVENTS = 20
"""How many events a story goes back."""

MAX_EFFECTS = 8
"""How many effects of one event a story shows."""

MAX_CHARACTERS = 60
"""How much of a text a story shows."""

S = TypeVar("S", bound=Enum)


class Transition(NamedTuple, Generic[S]):
    """From `source` to `target` because of `cause`, a few words in the language of the docs."""

    source: S
    cause: str
    target: S


class TransitionTable(Generic[S]):
    """All transitions of one machine. Nothing leads out of the `final_states`.

    `step` is the only way a machine changes its state: it returns the next state, or raises
    `IllegalTransitionError` and so leaves the machine as it was.
    """

    def __init__(self, machine: str, about: str, initial: S, rows: Iterable[tuple[S, str, S]]) -> None:
        self.machine = machine
        self.about = about
        self.initial = initial
        self.rows = tuple(Transition(*row) for row in rows)
        self.final_states = frozenset(row.target for row in self.rows) - frozenset(row.source for row in self.rows)
        self._next = {(row.source, row.cause): row.target for row in self.rows}
        if len(self._next) < len(self.rows):
            raise EngineError(f"{machine}: a state has two transitions for the same cause; name the causes apart")

    def step(self, state: S, cause: str) -> S:
        target = self._next.get((state, cause))
        if target is None:
            raise IllegalTransitionError(self.machine, state.name, cause)
        return target


class Story:
    """The last events of a machine and the effects of each, oldest first, one line for each event.

    Keeps small fields only, so that no snapshot stays in memory. An event that repeats the one before is kept once.
    """

    def __init__(self) -> None:
        self._last: deque[tuple[_Kept, list[_Kept], int]] = deque(maxlen=STORY_EVENTS)

    def add(self, event: Any, effects: Sequence[Any]) -> None:
        kept = [_kept(effect) for effect in effects[:MAX_EFFECTS]]
        entry = _kept(event), kept, len(effects) - len(kept)
        if not self._last or self._last[-1] != entry:
            self._last.append(entry)

    def tell(self, error: EngineError, event: Any) -> None:
        """Put the story into an error that `event` led to. The story of an inner machine stays."""
        if not error.story:
            self.add(event, ())
            error.story = tuple(_line(*entry) for entry in self._last)


class _Kind(NamedTuple):
    """A class of events or effects, and how to get at its small fields."""

    name: str
    fields: Callable[[Any], Any]
    size: int


_Kept: TypeAlias = tuple[_Kind, Any]
_KINDS: dict[type, _Kind] = {}
_PLAIN = frozenset({int, bool, float, str, type(None)})


def _kept(fact: Any) -> _Kept:
    kind = _KINDS.get(type(fact))
    if kind is None:
        kind = _KINDS[type(fact)] = _kind(type(fact))
    return kind, kind.fields(fact)


def _kind(fact: type) -> _Kind:
    paths = []
    for name, hint in get_type_hints(fact).items():
        if _is_small(hint):
            paths.append(name)
        elif "id" in getattr(hint, "__match_args__", ()):
            paths.append(f"{name}.id")
    return _Kind(fact.__name__, attrgetter(*paths) if paths else lambda _: (), len(paths))


def _is_small(hint: Any) -> bool:
    """Whether values of this type are small: plain values, enums, and records of such."""
    if isinstance(hint, UnionType):
        return all(map(_is_small, get_args(hint)))
    if hint in _PLAIN or not isinstance(hint, type) or issubclass(hint, Enum):
        return isinstance(hint, type)
    return hasattr(hint, "__match_args__") and all(map(_is_small, get_type_hints(hint).values()))


def _line(event: _Kept, effects: Sequence[_Kept], more: int) -> str:
    first, *others = (
        f"{kind.name}({', '.join(map(_short, (values,) if kind.size == 1 else values))})"
        for kind, values in (event, *effects)
    )
    ending = f", and {more} more" if more else ""
    return f"{first} -> {', '.join(others)}{ending}" if others else first


def _short(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_CHARACTERS else f"{value[:MAX_CHARACTERS]}…")
    if type(value) in _PLAIN or isinstance(value, tuple):
        return str(value)
    return f"{type(value).__name__} {getattr(value, 'id', getattr(value, 'name', ''))}".rstrip()


class _Machine(Protocol):
    story: Story


M = TypeVar("M", bound=_Machine)
E = TypeVar("E")
F = TypeVar("F")
P = ParamSpec("P")


def recorded(handle: Callable[Concatenate[M, E, P], list[F]]) -> Callable[Concatenate[M, E, P], list[F]]:
    """Decorates the `handle` of a machine that has a `story`: events and effects go there, and from there into errors.

    Costs microseconds for each event: not for anything that is called per batch.
    """

    @wraps(handle)
    def handle_recorded(machine: M, event: E, /, *arguments: P.args, **options: P.kwargs) -> list[F]:
        try:
            effects = handle(machine, event, *arguments, **options)
        except EngineError as error:
            machine.story.tell(error, event)
            raise
        machine.story.add(event, effects)
        return effects

    return handle_recorded
