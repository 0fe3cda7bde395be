"""The tables of the aligning handler, and the states they lead to."""

from __future__ import annotations

import pytest

from snapline.errors import IllegalTransitionError
from snapline.protocol.barriers.alignment_states import ALIGNED, ALTERNATING, STATES, AlignmentPhase
from snapline.protocol.machine import TransitionTable

TABLES = pytest.mark.parametrize("table", [ALIGNED, ALTERNATING], ids=["aligned", "alternating"])


@TABLES
def test_a_handler_never_ends(table: TransitionTable[AlignmentPhase]) -> None:
    assert table.final_states == frozenset()


@TABLES
def test_from_every_state_an_abort_leads_back_to_the_start(table: TransitionTable[AlignmentPhase]) -> None:
    for state in {row.source for row in table.rows}:
        assert table.step(state, "abort") is table.initial


def test_only_the_alternating_handler_may_switch() -> None:
    with pytest.raises(IllegalTransitionError):
        ALIGNED.step(AlignmentPhase.COLLECTING, "switch")
    assert ALTERNATING.step(AlignmentPhase.COLLECTING, "switch") is AlignmentPhase.COLLECTING_UNALIGNED


def test_each_name_has_its_state() -> None:
    assert {name: state.name for name, state in STATES.items()} == {name: name for name in AlignmentPhase}
