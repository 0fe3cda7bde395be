"""Transition tables: what a machine may do, in one place that code obeys and docs are made from."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from snapline.errors import IllegalTransitionError

S = TypeVar("S", bound=Enum)


class Transition(NamedTuple, Generic[S]):
    """From `source` to `target` because of `cause`, a few words in the language of the docs."""

    source: S
    cause: str
    target: S


class TransitionTable(Generic[S]):
    """All transitions of one machine.

    `step` is the only way a machine changes its state: it returns the new state, or raises
    `IllegalTransitionError` and so leaves the machine as it was.
    """

    def __init__(self, machine: str, about: str, initial: S, rows: Iterable[tuple[S, str, S]]) -> None:
        self.machine = machine
        self.about = about
        self.initial = initial
        self.rows = tuple(Transition(*row) for row in rows)
        self._allowed = frozenset(self.rows)

    def step(self, state: S, cause: str, target: S) -> S:
        if (state, cause, target) not in self._allowed:
            raise IllegalTransitionError(self.machine, state.name, cause, target.name)
        return target

    @property
    def final_states(self) -> frozenset[S]:
        """States nothing leads out of."""
        return frozenset(row.target for row in self.rows) - frozenset(row.source for row in self.rows)
