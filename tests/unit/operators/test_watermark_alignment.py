"""Sources of a job that wait for each other."""

from __future__ import annotations

from snapline.operators.watermark_alignment import AlignmentGroup


def test_everybody_hears_of_the_slowest_subtask_of_all_sources() -> None:
    told: list[tuple[str, int | None]] = []
    one = AlignmentGroup("job", "g", "one", 2, lambda time: told.append(("one", time)))
    two = AlignmentGroup("job", "g", "two", 1, lambda time: told.append(("two", time)))
    one.report(0, 100, is_idle=False)
    one.report(1, 200, is_idle=False)
    assert told == [], "one of them has no event time yet"
    two.report(0, 50, is_idle=False)
    assert told == [("one", 50), ("two", 50)]
    two.report(0, 150, is_idle=False)
    assert told[2:] == [("one", 100), ("two", 100)]
    one.report(1, 300, is_idle=False)
    assert told[4:] == [], "nothing has changed"
    one.leave()
    assert told[4:] == [("two", 150)]
    two.leave()


def test_nobody_waits_for_who_is_idle_or_has_left() -> None:
    told: list[int | None] = []
    one = AlignmentGroup("job", "g", "one", 2, told.append)
    one.report(0, 100, is_idle=False)
    one.report(1, None, is_idle=True)
    assert told == [100]
    one.report(1, 20, is_idle=False)
    assert told == [100, 20]
    one.leave()
    other = AlignmentGroup("job", "g", "one", 1, told.append)
    other.report(0, 7, is_idle=False)
    assert told == [100, 20, 7], "nothing is left of the one before"
    other.leave()


def test_jobs_and_groups_are_apart() -> None:
    told: list[int | None] = []
    members = [AlignmentGroup(job, name, "it", 1, told.append) for job, name in (("a", "g"), ("a", "h"), ("b", "g"))]
    for number, member in enumerate(members):
        member.report(0, number, is_idle=False)
    assert told == [0, 1, 2]
    for member in members:
        member.leave()
