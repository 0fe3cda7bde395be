from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.operators.changes.over_frames import Frame
from snapline.operators.changes.over_functions import OverKind
from snapline.sql.lowering.over_specs import constant, frame_of, over_function
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Expression

DAY = 86_400_000_000


def minus(value: Expression) -> Expression:
    return kit.call("UnaryMinus", value.type, value)


def spec(kind: str, lower: Expression, upper: Expression, order: pa.DataType | None = None) -> Expression:
    sorts = [] if order is None else [kit.call("SortOrder", order, reference(Attribute(1, "o", order)))]
    frame = kit.call("SpecifiedWindowFrame", pa.null(), lower, upper, frameType=kind)
    return kit.call("WindowSpecDefinition", pa.null(), *sorts, frame)


START, END, HERE = (kit.call(name, pa.null()) for name in ("UnboundedPreceding", "UnboundedFollowing", "CurrentRow"))


def test_frames_of_rows() -> None:
    assert frame_of(spec("RowFrame", START, END)) == Frame(True, None, None)
    wide = kit.call("Cast", pa.int64(), minus(kit.literal(3)))
    assert frame_of(spec("RowFrame", wide, HERE)) == Frame(True, -3, 0)
    assert frame_of(spec("RowFrame", HERE, kit.literal(2))) == Frame(True, 0, 2)


@pytest.mark.parametrize(
    ("order", "distance", "ticks"),
    [
        (pa.int32(), kit.literal(5), 5),
        (pa.float64(), kit.literal(Decimal("0.5")), 0.5),
        (pa.decimal128(10, 2), kit.literal(Decimal("1.5")), 150),
        (kit.TIME, kit.literal(10, pa.duration("us")), 10),
        (kit.TIME, kit.literal(pa.MonthDayNano([0, 0, 5000]), pa.month_day_nano_interval()), 5),
        (pa.date32(), kit.literal(2 * DAY, pa.duration("us")), 2),
        (pa.date32(), kit.literal(3), 3),
    ],
)
def test_distances(order: pa.DataType, distance: Expression, ticks: Any) -> None:
    assert frame_of(spec("RangeFrame", minus(distance), distance, order)) == Frame(False, -ticks, ticks)


@pytest.mark.parametrize(
    ("order", "distance"),
    [
        (kit.TIME, kit.literal(1, pa.int32())),
        (kit.TIME, kit.literal(pa.MonthDayNano([1, 0, 0]), pa.month_day_nano_interval())),
        (pa.date32(), kit.literal(DAY // 2, pa.duration("us"))),
        (pa.date32(), Expression("Literal", pa.int32(), (), {"value": 1}, False, "INTERVAL '1' MONTH")),
        (pa.decimal128(30, 2), kit.literal(Decimal("1.5"))),
    ],
)
def test_distances_that_are_no_fixed_length_are_refused(order: pa.DataType, distance: Expression) -> None:
    with pytest.raises(ConfigurationError, match=r"expression Literal .*a distance in an order.*interval of days"):
        frame_of(spec("RangeFrame", distance, HERE, order))


def test_only_constants_are_numbers_of_rows() -> None:
    with pytest.raises(ConfigurationError, match="it is not a constant"):
        constant(reference(kit.PRICE))


def test_functions() -> None:
    names: dict[str, str] = {}

    def column(expression: Expression, name: str) -> str:
        return names.setdefault(expression.text, f"{name} {len(names)}")

    def made(function: Expression) -> Any:
        window = kit.call("WindowExpression", function.type, function, spec("RowFrame", START, HERE))
        return over_function(window, column)

    value = reference(kit.PRICE)
    lead = made(kit.call("Lead", pa.int64(), value, kit.literal(2), kit.literal(7), ignoreNulls=True))
    assert (lead.kind, lead.number, lead.ignore_nulls) == (OverKind.LAG, -2, True)
    assert (lead.column, lead.default) == (names[value.text], names["7"])
    lag = made(kit.call("Lag", pa.int64(), value, kit.literal(1), kit.literal(None, pa.null())))
    assert (lag.number, lag.default, lag.ignore_nulls) == (1, None, False)
    nth = made(kit.call("NthValue", pa.int64(), value, kit.literal(3), ignoreNulls=False))
    assert (nth.kind, nth.number, nth.frame) == (OverKind.NTH_VALUE, 3, Frame(True, None, 0))
    assert made(kit.call("NTile", pa.int32(), kit.literal(4))).number == 4
    assert made(kit.call("CumeDist", pa.float64())).kind is OverKind.CUME_DIST
