"""Possession of slots: who counts, what is lost, and what is done about it."""

from __future__ import annotations

import pytest

from snapline.protocol.job.slot_board import (
    AnnounceReady,
    DropAll,
    DropProcess,
    GiveSlotsBack,
    KillSlotProcess,
    OrderSlots,
    Possession,
    ProbeProcess,
    RefusePeer,
    ReportNoSlots,
    ReportProcessGone,
    ReportSlotFailure,
    SlotBoard,
    SlotEffect,
    StartSlotProcess,
)


def address(slot: int) -> tuple[str, int]:
    return "node", 100 + slot


def registered(count: int = 2) -> SlotBoard:
    """A board that waits for the operator processes of its first order."""
    board = SlotBoard(count)
    assert board.wanted() == [OrderSlots(1)]
    for slot in range(count):
        assert board.supervisor_greeted(1, slot, "node") == [StartSlotProcess(slot, 1)]
    return board


def greeted(board: SlotBoard, slot: int, incarnation: int = 1) -> list[SlotEffect]:
    return board.process_greeted(board.generation, slot, incarnation, 1000 + slot, address(slot))


def ready(count: int = 2) -> SlotBoard:
    board = registered(count)
    effects: list[SlotEffect] = []
    for slot in range(count):
        assert greeted(board, slot) == [ProbeProcess(slot, 1, address(slot))]
        effects = board.process_reached(slot, 1)
    assert effects == [AnnounceReady(tuple(map(address, range(count))))]
    return board


def causes(effects: list[SlotEffect]) -> list[str]:
    return [effect.cause for effect in effects if isinstance(effect, ReportSlotFailure)]


# Having slots.


def test_slots_are_announced_once_every_data_port_was_reached() -> None:
    board = registered()
    greeted(board, 1)
    assert board.process_reached(1, 1) == []
    greeted(board, 0)
    assert board.live_processes == [0, 1]
    assert board.process_reached(0, 1) == [AnnounceReady((address(0), address(1)))]
    assert board.process_reached(0, 1) == []


def test_slots_that_are_held_are_ready_at_once_when_they_are_wanted_again() -> None:
    board = ready()
    assert board.wanted() == [AnnounceReady((address(0), address(1)))]


def test_nobody_hears_of_slots_that_are_no_longer_wanted() -> None:
    board = registered(1)
    board.unwanted()
    greeted(board, 0)
    assert board.process_reached(0, 1) == []
    assert board.wanted() == [AnnounceReady((address(0),))]


def test_processes_are_started_early_only_in_slots_that_are_held() -> None:
    board = SlotBoard(1)
    assert board.wanted_soon() == []
    board = ready()
    board.kill(1)
    assert board.wanted_soon() == [StartSlotProcess(1, 2)]
    assert board.wanted_soon() == []


# Greetings.


@pytest.mark.parametrize(
    ("generation", "slot", "reason"),
    [
        (2, 0, "slot 0 is of generation 2, which is no longer wanted"),
        (0, 1, "slot 1 is of generation 0, which is no longer wanted"),
        (1, 2, "there is no slot 2"),
        (1, -1, "there is no slot -1"),
    ],
)
def test_whoever_is_not_awaited_is_refused(generation: int, slot: int, reason: str) -> None:
    board = SlotBoard(2)
    board.wanted()
    assert board.supervisor_greeted(generation, slot, "node") == [RefusePeer(reason)]
    assert board.process_greeted(generation, slot, 1, 1, address(slot)) == [RefusePeer(reason)]


def test_a_slot_has_one_supervisor() -> None:
    board = registered()
    assert board.supervisor_greeted(1, 0, "other") == [RefusePeer("slot 0 is taken")]
    board.supervisor_lost(0, "gone")
    assert board.supervisor_greeted(1, 0, "other") == [RefusePeer("slot 0 is taken")], "its process may still run"


@pytest.mark.parametrize("incarnation", [0, 2])
def test_only_the_process_that_was_started_last_is_welcome(incarnation: int) -> None:
    board = registered()
    (refusal,) = greeted(board, 0, incarnation)
    assert refusal == RefusePeer(f"operator process {incarnation} of slot 0 is not the one awaited")
    assert isinstance(greeted(board, 0)[0], ProbeProcess)
    assert isinstance(greeted(board, 0)[0], RefusePeer), "it has greeted"


# Losses.


def test_a_process_that_died_is_replaced_in_place_when_slots_are_wanted_again() -> None:
    board = ready()
    effects = board.process_ended(1, 1, "killed by signal 9", "log")
    assert effects == [
        DropProcess(1),
        ReportProcessGone(1),
        ReportSlotFailure("the operator process of slot 1 on node has ended: killed by signal 9", "log", slot=1),
    ]
    assert board.possession is Possession.HELD
    assert board.wanted() == [StartSlotProcess(1, 2)]


def test_the_death_of_an_older_process_only_explains() -> None:
    board = ready()
    board.process_lost(0, "reset by peer", may_live=False)
    assert board.wanted() == [StartSlotProcess(0, 2)]
    (report,) = board.process_ended(0, 1, "killed by signal 9", "log")
    assert isinstance(report, ReportSlotFailure)
    assert (report.explains, report.log, report.slot) == (True, "log", 0)
    assert isinstance(greeted(board, 0, 2)[0], ProbeProcess), "the new one counts on"
    assert board.process_ended(0, 7, "from the future", "") == []


@pytest.mark.parametrize("may_live", [False, True])
def test_a_process_this_side_hung_up_on_is_killed(may_live: bool) -> None:
    board = ready()
    effects = board.process_lost(1, "silent", may_live=may_live)
    assert (effects[0] == KillSlotProcess(1, 1)) is may_live
    assert effects[-2:] == [
        ReportProcessGone(1),
        ReportSlotFailure(
            "the operator process of slot 1 on node (process 1001) is lost: silent", slot=1, is_loss=True
        ),
    ]


def test_one_lost_slot_dooms_all() -> None:
    board = ready()
    effects = board.supervisor_lost(0, "reset by peer")
    assert effects == [
        DropProcess(0),
        ReportProcessGone(0),
        ReportSlotFailure("slot 0 on node is lost: reset by peer", slot=0, is_loss=True),
    ]
    assert board.idle() == [GiveSlotsBack()]
    assert board.wanted() == [], "nothing is ordered before all are given back"
    assert board.released() == [DropAll(), ReportProcessGone(1), OrderSlots(2)]


def test_doomed_slots_are_given_back_when_slots_are_wanted() -> None:
    board = ready()
    board.supervisor_lost(0, "reset by peer")
    assert board.wanted() == [GiveSlotsBack()]
    assert board.idle() == []
    assert board.release() == []


def test_slots_that_are_fine_stay_while_nothing_runs() -> None:
    board = ready()
    assert board.idle() == []
    assert board.release() == [GiveSlotsBack()]
    board.released()
    assert (board.possession, board.live_processes) == (Possession.NONE, [])


def test_nothing_of_slots_that_are_being_given_back_counts() -> None:
    board = ready()
    board.release()
    assert board.process_ended(0, 1, "killed", "") == []
    assert board.process_lost(1, "closed", may_live=False) == []
    assert board.supervisor_lost(1, "closed") == []
    assert board.provider_failed(1, "why they ended", True) == [ReportSlotFailure("why they ended", explains=True)]
    assert isinstance(board.supervisor_greeted(1, 0, "node")[0], RefusePeer)


def test_only_the_provider_of_the_newest_order_can_fail() -> None:
    board = ready()
    assert board.provider_failed(0, "late", True) == []
    assert board.provider_failed(1, "the stage has failed", False) == [ReportNoSlots("the stage has failed", False)]
    assert board.possession is Possession.DOOMED


def test_a_port_nobody_reaches_is_the_end_of_its_process() -> None:
    board = registered()
    greeted(board, 0)
    *killed, report = board.process_unreached(0, 1, "connection refused")
    assert killed == [KillSlotProcess(0, 1), DropProcess(0)]
    assert isinstance(report, ReportSlotFailure)
    assert "slot 0 cannot be reached at node:100: connection refused" in report.cause
    assert board.process_unreached(0, 1, "again") == [], "it is gone"
    assert board.process_reached(0, 1) == []


def test_a_port_of_slots_that_are_given_back_is_not_missed() -> None:
    board = registered()
    greeted(board, 0)
    board.release()
    assert board.process_unreached(0, 1, "connection refused") == [], "it was asked to end"


# A start that takes too long.


def test_slots_that_did_not_register_are_given_up() -> None:
    board = SlotBoard(3)
    board.wanted()
    board.supervisor_greeted(1, 1, "node")
    effects = board.start_timed_out(60)
    assert effects[0] == KillSlotProcess(1, 1)
    (cause,) = causes(effects)
    assert cause.startswith("1 of the 3 slots registered within 60 s (start_timeout)")
    assert board.possession is Possession.DOOMED


def test_processes_that_did_not_come_up_are_named_and_started_again() -> None:
    board = registered(3)
    greeted(board, 1)
    board.process_reached(1, 1)
    effects = board.start_timed_out(60)
    assert [effect for effect in effects if isinstance(effect, KillSlotProcess)] == [
        KillSlotProcess(0, 1),
        KillSlotProcess(2, 1),
    ]
    (cause,) = causes(effects)
    assert "slots 0 on node, 2 on node" in cause
    assert board.wanted() == [StartSlotProcess(0, 2), StartSlotProcess(2, 2)]


def test_if_all_slots_are_ready_something_else_takes_too_long() -> None:
    assert ready().start_timed_out(60) == []
