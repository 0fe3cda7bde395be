"""What all machines share: the table that drives and documents them, and the story that their errors carry."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from snapline.errors import EngineError, IllegalTransitionError

STORY_EVENTS = 20
"""How many events a story goes back."""

MAX_EFFECTS = 8
"""How many effects of one event a story shows."""

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

    Lines hold names and small values only, so that a story keeps no snapshot in memory. An event that repeats the
    one before is kept once.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=STORY_EVENTS)

    def add(self, event: Any, effects: Sequence[Any]) -> None:
        line = outline(event)
        if effects:
            more = f", and {len(effects) - MAX_EFFECTS} more" if len(effects) > MAX_EFFECTS else ""
            line = f"{line} -> {', '.join(map(outline, islice(effects, MAX_EFFECTS)))}{more}"
        if not self._lines or self._lines[-1] != line:
            self._lines.append(line)

    def tell(self, error: EngineError, event: Any) -> None:
        """Put the story into an error that `event` led to. The story of an inner machine stays."""
        if not error.story:
            error.story = (*self._lines, outline(event))


def outline(fact: Any) -> str:
    """An event or effect in a few words, such as `BarrierReceived(0, Barrier 7)`."""
    values = [_short(getattr(fact, name)) for name in fact.__match_args__]
    return f"{type(fact).__name__}({', '.join(values)})"


def _short(value: Any) -> str:
    kind = type(value)
    if kind is int or kind is bool or kind is float or value is None:
        return str(value)
    if kind is str:
        return repr(value if len(value) <= 60 else f"{value[:60]}…")
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple) and "__str__" in vars(kind):
        return str(value)
    identity = getattr(value, "id", None)
    return kind.__name__ if identity is None else f"{kind.__name__} {identity}"


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
