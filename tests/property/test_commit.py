"""Properties of the committer: nothing without a permit, oldest first, everything in the end, nothing twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from snapline.protocol.commit import AbortNewer, Commit, CommitEffect, CommitResult, Committable, Committer, FailCommit

ATTEMPT = 2
MAX_RETRIES = 2

prepares = st.tuples(st.just("prepare"), st.integers(0, 3), st.just(CommitResult.COMMITTED))
completions = st.tuples(st.just("complete"), st.integers(0, 3), st.just(CommitResult.COMMITTED))
answers = st.tuples(st.just("answer"), st.integers(0, 9), st.sampled_from(CommitResult))
scripts = st.lists(st.one_of(prepares, completions, answers, answers), max_size=40)


@dataclass
class Outside:
    """The world the sink writes to, and a check of each commit at the moment it is ordered."""

    committer: Committer
    prepared: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    tries: dict[str, int] = field(default_factory=dict)
    permitted_id: int = -1
    has_failed: bool = False

    def carry_out(self, effects: Iterable[CommitEffect]) -> None:
        for effect in effects:
            match effect:
                case Commit(committable, permit):
                    name = committable.name
                    assert permit.attempt == ATTEMPT
                    assert committable.checkpoint_id <= permit.checkpoint_id == self.permitted_id, "without a permit"
                    assert name not in self.done, "committed twice"
                    assert name not in self.asked, "asked twice at once"
                    older = [
                        other
                        for other, checkpoint_id in self.prepared.items()
                        if checkpoint_id < committable.checkpoint_id and other not in self.done
                    ]
                    assert not older, "before an older checkpoint"
                    self.asked.append(name)
                    self.tries[name] = self.tries.get(name, 0) + 1
                    assert self.tries[name] <= MAX_RETRIES + 1
                case FailCommit():
                    self.has_failed = True
                case AbortNewer():
                    raise AssertionError("only a restore aborts")

    def complete(self, checkpoint_id: int) -> None:
        self.permitted_id = max(self.permitted_id, checkpoint_id)
        self.carry_out(self.committer.completed(checkpoint_id))

    def answer(self, name: str, result: CommitResult) -> None:
        self.asked.remove(name)
        if result not in (CommitResult.RETRY_LATER, CommitResult.FAILED_UNKNOWN):
            self.done.append(name)
        self.carry_out(self.committer.answered(name, result))


@given(scripts)
def test_commits_follow_permits_in_order_and_all_that_is_permitted_is_committed(
    script: list[tuple[str, int, CommitResult]],
) -> None:
    committer = Committer(ATTEMPT, max_retries=MAX_RETRIES)
    outside = Outside(committer)
    checkpoint_id = 0
    known_failures = 0
    for what, number, result in script:
        if what == "prepare":
            checkpoint_id += 1
            names = [f"{checkpoint_id}-{index}" for index in range(number)]
            outside.prepared.update(dict.fromkeys(names, checkpoint_id))
            committer.prepared(checkpoint_id, [Committable(name, checkpoint_id) for name in names], number)
        elif what == "complete":
            outside.complete(max(checkpoint_id - number, 0))
        elif outside.asked:
            known_failures += result is CommitResult.FAILED_KNOWN
            outside.answer(outside.asked[number % len(outside.asked)], result)
        if outside.has_failed:
            return
        open_names = {entry.name for entry in committer.pending}
        assert open_names == set(outside.prepared) - set(outside.done)
        for bound in (checkpoint_id, checkpoint_id - 1):
            stored = {entry.name for entry in committer.snapshot(bound)}
            assert stored == {name for name in open_names if outside.prepared[name] <= bound}
    while outside.asked:
        outside.answer(outside.asked[0], CommitResult.COMMITTED)
    assert {name for name, made_for in outside.prepared.items() if made_for <= outside.permitted_id} == set(
        outside.done
    ), "something that was permitted is left"
    assert committer.dropped == known_failures


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(5, 7), st.data())
def test_whatever_was_prepared_is_committed_by_a_restore_or_aborted_and_never_both(
    prepared_for: list[int], restored_id: int, data: st.DataObject
) -> None:
    """A crash at any point between prepare and commit: the snapshot holds just what may not have been done."""
    old = Committer(ATTEMPT - 1)
    done: set[str] = set()
    names: dict[str, int] = {}
    for checkpoint_id in range(1, 8):
        mine = [f"{checkpoint_id}-{index}" for index, made_for in enumerate(prepared_for) if made_for == checkpoint_id]
        names.update(dict.fromkeys(mine, checkpoint_id))
        old.prepared(checkpoint_id, [Committable(name, checkpoint_id) for name in mine], len(mine))
        if checkpoint_id == restored_id:
            break
        if data.draw(st.booleans()):
            waiting = [effect.committable.name for effect in old.completed(checkpoint_id) if isinstance(effect, Commit)]
            while waiting:
                if not data.draw(st.booleans()):
                    break
                name = waiting.pop(0)
                done.add(name)
                effects = old.answered(name, CommitResult.COMMITTED)
                waiting += [effect.committable.name for effect in effects if isinstance(effect, Commit)]
    stored = old.snapshot(restored_id)
    abort, *effects = Committer(ATTEMPT).restored(restored_id, stored)
    assert abort == AbortNewer(restored_id)
    assert {entry.name for entry in stored} == set(names) - done
    ordered = [effect.committable.checkpoint_id for effect in effects if isinstance(effect, Commit)]
    assert len(ordered) == len(effects)
    assert set(ordered) <= {min((entry.checkpoint_id for entry in stored), default=0)}, "the oldest first"
