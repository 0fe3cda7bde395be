"""Explanations and the steps of critical paths."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from snapline.protocol import statistics
from snapline.protocol.statistics.explanation import Explanation, PathPart, PathStep, SlowCause


def test_a_step_takes_the_time_between_its_ends() -> None:
    assert PathStep(PathPart.ALIGNMENT, "counts", 2, 100, 350).duration_ms == 250


def test_an_explanation_blames_nobody_unless_told_to() -> None:
    explanation = Explanation(3, SlowCause.NOTHING, "nothing slow")
    assert (explanation.vertex, explanation.subtask, explanation.advice, explanation.path) == ("", None, "", ())
    with pytest.raises(FrozenInstanceError):
        explanation.sentence = "slow"  # type: ignore[misc]


def test_users_can_name_causes_and_parts() -> None:
    assert {statistics.SlowCause("skew"), statistics.PathPart("start delay")} == {SlowCause.SKEW, PathPart.START_DELAY}
