"""In-flight capture: which data belongs to an unaligned checkpoint, channel by channel."""

from __future__ import annotations

import pytest

from snapline.errors import IllegalTransitionError
from snapline.protocol.barriers.capture import CAPTURE, ChannelCapture, InputCapture


def capturing(capture: InputCapture, channels: int = 3) -> set[int]:
    return {channel for channel in range(channels) if capture.is_capturing(channel)}


def test_nothing_is_captured_before_a_checkpoint_starts() -> None:
    assert capturing(InputCapture(3)) == set()


def test_a_start_captures_on_every_channel_until_its_barrier() -> None:
    capture = InputCapture(3)
    capture.start(1)
    assert capturing(capture) == {0, 1, 2}
    capture.barrier_arrived(1, 1)
    assert capturing(capture) == {0, 2}


def test_a_channel_whose_barrier_is_already_there_is_not_captured() -> None:
    capture = InputCapture(3)
    capture.barrier_arrived(1, 1)
    assert capturing(capture) == set()
    capture.start(1)
    assert capturing(capture) == {0, 2}


def test_an_older_barrier_that_is_already_there_does_not_count_for_a_newer_checkpoint() -> None:
    capture = InputCapture(2)
    capture.barrier_arrived(0, 1)
    capture.start(2)
    assert capturing(capture, 2) == {0, 1}


@pytest.mark.parametrize("late_id", [1, 2])
def test_older_barriers_do_not_end_the_capture(late_id: int) -> None:
    capture = InputCapture(2)
    capture.start(3)
    capture.barrier_arrived(0, late_id)
    assert capturing(capture, 2) == {0, 1}


def test_a_newer_barrier_ends_the_capture() -> None:
    capture = InputCapture(2)
    capture.start(3)
    capture.barrier_arrived(0, 4)
    assert capturing(capture, 2) == {1}


def test_a_stop_ends_the_capture_everywhere() -> None:
    capture = InputCapture(3)
    capture.start(1)
    capture.barrier_arrived(0, 1)
    capture.stop(1)
    assert capturing(capture) == set()


def test_a_stop_of_an_older_checkpoint_leaves_the_newer_one_alone() -> None:
    capture = InputCapture(2)
    capture.start(1)
    capture.start(2)
    capture.stop(1)
    assert capturing(capture, 2) == {0, 1}


def test_a_stop_does_not_forget_a_newer_barrier() -> None:
    capture = InputCapture(2)
    capture.start(1)
    capture.barrier_arrived(0, 2)
    capture.stop(1)
    capture.start(2)
    assert capturing(capture, 2) == {1}


def test_a_stop_without_a_start_changes_nothing() -> None:
    capture = InputCapture(2)
    capture.stop(1)
    capture.start(1)
    assert capturing(capture, 2) == {0, 1}


def test_after_a_stop_a_late_barrier_of_that_checkpoint_is_no_news() -> None:
    capture = InputCapture(2)
    capture.start(1)
    capture.stop(1)
    capture.barrier_arrived(0, 1)
    capture.start(2)
    assert capturing(capture, 2) == {0, 1}


def test_a_repeated_start_changes_nothing() -> None:
    capture = InputCapture(2)
    capture.start(1)
    capture.barrier_arrived(0, 1)
    capture.start(1)
    assert capturing(capture, 2) == {1}


def test_a_repeated_barrier_changes_nothing() -> None:
    capture = InputCapture(2)
    capture.start(1)
    capture.barrier_arrived(0, 1)
    capture.barrier_arrived(0, 1)
    assert capturing(capture, 2) == {1}
    assert not capture.is_subsumed(1)


def test_a_checkpoint_is_subsumed_once_a_channel_has_a_newer_barrier() -> None:
    capture = InputCapture(2)
    assert not capture.is_subsumed(1)
    capture.barrier_arrived(0, 1)
    assert not capture.is_subsumed(1)
    capture.barrier_arrived(0, 2)
    assert capture.is_subsumed(1)
    assert not capture.is_subsumed(2)
    assert not capture.is_subsumed(3)


def test_a_newer_checkpoint_that_has_only_started_or_is_stopped_does_not_subsume() -> None:
    capture = InputCapture(2)
    capture.start(2)
    assert not capture.is_subsumed(1)
    capture.barrier_arrived(0, 2)
    assert capture.is_subsumed(1)
    capture.stop(2)
    assert not capture.is_subsumed(1)


def test_the_table_refuses_what_it_does_not_have() -> None:
    with pytest.raises(IllegalTransitionError):
        CAPTURE.step(ChannelCapture.COMPLETED, "checkpoint stopped")
    assert CAPTURE.final_states == frozenset()
