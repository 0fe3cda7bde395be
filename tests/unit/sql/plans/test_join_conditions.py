from __future__ import annotations

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.join_conditions import TimeBounds, split_condition
from snapline.sql.plans.time_windows import conjunction
from snapline.sql.plans.trees import Attribute, Expression

OTHER = tuple(Attribute(each.id + 100, each.name, each.type) for each in kit.EVENTS)
LEFT_TIME, RIGHT_TIME = reference(kit.AT), reference(OTHER[1])


def plus(time: Expression, seconds: int) -> Expression:
    return kit.call("TimestampAddInterval", kit.TIME, time, kit.literal(seconds * 10**6, pa.duration("us")))


def compared(kind: str, left: Expression, right: Expression) -> Expression:
    return kit.call(kind, pa.bool_(), left, right)


def test_equal_columns_are_keys_whichever_side_comes_first() -> None:
    ours, theirs = reference(kit.USER), reference(OTHER[2])
    conditions = [compared("EqualTo", theirs, ours), compared("EqualNullSafe", ours, theirs)]
    found = split_condition(conjunction(conditions), kit.EVENTS, OTHER)
    assert found.keys == ((ours, theirs), (ours, theirs))
    assert found.null_safe == (False, True)
    assert found.rest == ()


@pytest.mark.parametrize(
    ("condition", "lower_us", "upper_us"),
    [
        (compared("GreaterThanOrEqual", RIGHT_TIME, LEFT_TIME), 0, None),
        (compared("LessThanOrEqual", RIGHT_TIME, plus(LEFT_TIME, 3)), None, 3_000_000),
        (compared("LessThan", RIGHT_TIME, plus(LEFT_TIME, 3)), None, 2_999_999),
        (compared("GreaterThan", RIGHT_TIME, plus(LEFT_TIME, -3)), -2_999_999, None),
        (compared("LessThanOrEqual", LEFT_TIME, plus(RIGHT_TIME, 2)), -2_000_000, None),
        (compared("GreaterThanOrEqual", LEFT_TIME, plus(RIGHT_TIME, -2)), None, 2_000_000),
    ],
)
def test_a_comparison_of_times_is_a_bound(condition: Expression, lower_us: int | None, upper_us: int | None) -> None:
    found = split_condition(condition, kit.EVENTS, OTHER)
    assert found.bounds == TimeBounds(kit.AT.id, OTHER[1].id, lower_us, upper_us)


def test_bounds_come_together_and_the_tightest_holds() -> None:
    conditions = [
        compared("GreaterThanOrEqual", RIGHT_TIME, LEFT_TIME),
        compared("LessThanOrEqual", RIGHT_TIME, plus(LEFT_TIME, 9)),
        compared("LessThanOrEqual", RIGHT_TIME, plus(LEFT_TIME, 5)),
    ]
    found = split_condition(conjunction(conditions), kit.EVENTS, OTHER)
    assert found.bounds == TimeBounds(kit.AT.id, OTHER[1].id, 0, 5_000_000)


def test_the_rest_has_to_be_checked() -> None:
    condition = kit.greater(reference(kit.PRICE), reference(OTHER[3]))
    found = split_condition(condition, kit.EVENTS, OTHER)
    assert (found.keys, found.bounds, found.rest) == ((), None, (condition,))


def test_a_bound_of_months_is_not_one() -> None:
    month = kit.literal(pa.MonthDayNano([1, 0, 0]), pa.month_day_nano_interval())
    condition = compared("LessThanOrEqual", RIGHT_TIME, kit.call("TimestampAddInterval", kit.TIME, LEFT_TIME, month))
    assert split_condition(condition, kit.EVENTS, OTHER).bounds is None


def test_without_a_condition_there_are_no_parts() -> None:
    assert split_condition(None, kit.EVENTS, OTHER).keys == ()
