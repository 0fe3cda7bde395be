"""Properties of the event gate: nothing overtakes, nothing is lost, and no event crosses a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from snapline.protocol.coordinator.event_gate import Delivery, EventGate

PARALLELISM = 2

sends = st.tuples(st.just("send"), st.integers(0, PARALLELISM - 1))
closes = st.tuples(st.just("close"), st.just(0))
acknowledgements = st.tuples(st.just("acknowledge"), st.integers(0, 9))
releases = st.tuples(st.just("release"), st.integers(0, 4))
scripts = st.lists(st.one_of(sends, sends, closes, acknowledgements, releases), max_size=40)


@dataclass
class Model:
    """The rule read aloud: for each event, the checkpoints its subtask has yet to reach before it may leave."""

    closed: list[set[int]] = field(default_factory=lambda: [set() for _ in range(PARALLELISM)])
    held: list[list[tuple[int, set[int]]]] = field(default_factory=lambda: [[] for _ in range(PARALLELISM)])

    def send(self, subtask: int, event: int) -> None:
        self.held[subtask].append((event, set(self.closed[subtask])))

    def leaving(self) -> list[Delivery]:
        """What may leave now; an event behind one that is held is held."""
        out = []
        for subtask, events in enumerate(self.held):
            while events and not events[0][1] & self.closed[subtask]:
                out.append(Delivery(subtask, events.pop(0)[0]))
        return out


@given(scripts)
def test_the_gate_agrees_with_the_rule_read_aloud(script: list[tuple[str, int]]) -> None:
    gate, model = EventGate(PARALLELISM), Model()
    opened: list[int] = []
    for event, (what, number) in enumerate(script):
        deliveries: list[Delivery] = []
        match what:
            case "send":
                model.send(number, event)
                deliveries = gate.send(number, event)
            case "close":
                opened.append(event)
                gate.close(event)
                for closed in model.closed:
                    closed.add(event)
            case "acknowledge" if opened:
                subtask, checkpoint_id = number % PARALLELISM, opened[number % len(opened)]
                model.closed[subtask].discard(checkpoint_id)
                deliveries = gate.acknowledged(subtask, checkpoint_id)
            case "release" if opened:
                checkpoint_id = opened[number % len(opened)]
                for closed in model.closed:
                    closed.discard(checkpoint_id)
                deliveries = gate.released(checkpoint_id)
        assert deliveries == model.leaving()


@given(scripts)
def test_every_event_leaves_once_and_in_order_when_all_checkpoints_are_over(script: list[tuple[str, int]]) -> None:
    gate = EventGate(PARALLELISM)
    sent: list[list[int]] = [[] for _ in range(PARALLELISM)]
    left: list[list[int]] = [[] for _ in range(PARALLELISM)]
    opened: list[int] = []

    def note(deliveries: list[Delivery]) -> None:
        for subtask, event in deliveries:
            left[subtask].append(event)

    for event, (what, number) in enumerate(script):
        if what == "send":
            sent[number].append(event)
            note(gate.send(number, event))
        elif what == "close":
            opened.append(event)
            gate.close(event)
        elif what == "acknowledge" and opened:
            note(gate.acknowledged(number % PARALLELISM, opened[number % len(opened)]))
        elif what == "release" and opened:
            note(gate.released(opened[number % len(opened)]))
        assert all(mine == sent[subtask][: len(mine)] for subtask, mine in enumerate(left))
    for checkpoint_id in opened:
        note(gate.released(checkpoint_id))
    assert left == sent
