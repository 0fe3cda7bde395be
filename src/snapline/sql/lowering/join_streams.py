"""Joins of two streams, by key and time or by key alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from snapline.api.keyed_stream import KeyedStream
from snapline.operators.changes.changes import is_changing
from snapline.operators.changes.changing_join import JoinChanges, JoinKind
from snapline.operators.changes.join_sides import JoinSide
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.sql.expressions.compiler import Program
from snapline.sql.lowering.lowered_stream import Context, Lowered, checked_program, kept, projected
from snapline.sql.lowering.table_joins import joined_table
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.join_conditions import JoinCondition, split_condition
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.time_windows import conjunction
from snapline.sql.plans.trees import Attribute, Expression, Plan

_KINDS: Final = {
    "Inner": JoinKind.INNER,
    "Cross": JoinKind.INNER,
    "LeftOuter": JoinKind.LEFT,
    "RightOuter": JoinKind.RIGHT,
    "FullOuter": JoinKind.FULL,
    "LeftSemi": JoinKind.SEMI,
    "LeftAnti": JoinKind.ANTI,
}
_ONE_SIDE: Final = (JoinKind.SEMI, JoinKind.ANTI)


def lowered_join(plan: Plan, context: Context) -> Lowered:
    """The stream of a `Join` node. Where no columns must be equal, one subtask gets all rows."""
    left, right = plan.children
    condition = split_condition(next(iter(plan.expressions.get("condition", ())), None), left.output, right.output)
    kind = _KINDS.get(plan.arguments["joinType"])
    if kind is None:
        raise refusal(plan, f"the type {plan.arguments['joinType']}", "use an inner, outer, semi or anti join")
    if not right.is_streaming or not left.is_streaming:
        return joined_table(plan, condition, context, is_left=left.is_streaming)
    sides = [context.lower(child) for child in plan.children]
    is_plain = not any(side.is_changing for side in sides) and kind not in _ONE_SIDE
    if _is_bounded(condition) and is_plain and (kind is JoinKind.INNER or _is_exact(condition, sides)):
        return _by_time(plan, kind, condition, sides, context)
    return _by_key(plan, kind, condition, sides, context)


@dataclass(frozen=True, slots=True)
class _Keyed:
    """One side, keyed: its columns have names with the mark of the side."""

    stream: KeyedStream
    layout: KeyLayout
    names: tuple[str, ...]
    keys: tuple[str, ...]


def _keyed(side: Lowered, condition: JoinCondition, number: int, context: Context, *, keeps_keys: bool) -> _Keyed:
    mark = "lr"[number]
    keys = [pair[number] for pair in condition.keys]
    columns = [
        (replace(attribute, name=f"{mark} {name}"), reference(attribute))
        for attribute, name in zip(side.attributes, side.names, strict=True)
    ]
    made = [context.attribute(f"{mark} key {n}", key.type, nullable=key.nullable) for n, key in enumerate(keys)]
    ready = projected(side, [*columns, *zip(made, keys, strict=True)], "keys")
    schema = ready.stream.schema
    names = tuple(column.name for column in made)
    layout = KeyLayout(schema, names, condition.null_safe)
    stream = ready.stream.apply(AddKeys(layout), schema=layout.schema(schema))
    if names and not keeps_keys:
        stream = stream.drop(*names)
    return _Keyed(stream.key_by(*layout.key_columns), layout, tuple(attribute.name for attribute, _ in columns), names)


# By key alone.


class PairCondition:
    """Further conditions on pairs of rows. Pickled with the job."""

    def __init__(self, condition: Expression, attributes: Sequence[Attribute]) -> None:
        self._condition = condition
        self._attributes = tuple(attributes)
        self._program: Program | None = None

    def __call__(self, pairs: pa.RecordBatch) -> pa.Array:
        if self._program is None:
            self._program = Program([self._condition], self._attributes)
        return self._program.arrays(pairs)[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_program": None}


def _by_key(
    plan: Plan, kind: JoinKind, condition: JoinCondition, sides: Sequence[Lowered], context: Context
) -> Lowered:
    """A join that keeps all rows, and takes back what it has emitted where it has to."""
    keyed = [_keyed(side, condition, n, context, keeps_keys=True) for n, side in enumerate(sides)]
    attributes = (*sides[0].attributes, *sides[1].attributes)
    rest = list(condition.rest)
    if condition.bounds is not None:
        rest = [plan.expressions["condition"][0]]
    check, needed = None, None
    if rest:
        checked_program(rest, attributes)
        both = conjunction(rest)
        needed = [n for n, attribute in enumerate(attributes) if attribute.id in both.references] or [0]
        check = PairCondition(both, [attributes[n] for n in needed])
    inputs = [
        JoinSide(
            side.stream.schema,
            side.names,
            side.layout.key_columns,
            tuple(name for name, safe in zip(side.keys, condition.null_safe, strict=True) if not safe),
        )
        for side in keyed
    ]
    operator = JoinChanges(kind, inputs[0], inputs[1], condition=check, needed=needed)
    uid = context.uids.uid("join", *(each.text for each, _ in condition.keys))
    connected = keyed[0].stream.connect(keyed[1].stream)
    stream = connected._then("join", operator, operator.output_schema, uid, None, has_state=True)
    changing = is_changing(operator.output_schema)
    given = sides[0].attributes if kind in _ONE_SIDE else attributes
    made = tuple(_padded(each, field.nullable) for each, field in zip(given, operator.output_schema, strict=False))
    output = {attribute.id: attribute for attribute in plan.output}
    columns = [(output.get(each.id, each), reference(each)) for each in made]
    return projected(Lowered(stream, made, changing), columns, "joined")


def _padded(attribute: Attribute, nullable: bool) -> Attribute:
    return replace(attribute, nullable=nullable or attribute.nullable)


# By key and time.


def _by_time(
    plan: Plan, kind: JoinKind, condition: JoinCondition, sides: Sequence[Lowered], context: Context
) -> Lowered:
    """A join that keeps rows only while the watermark allows for a match, and emits each result once."""
    bounds = condition.bounds
    assert bounds is not None
    assert bounds.lower_us is not None
    assert bounds.upper_us is not None
    present, loose = zip(*(_apart(side, condition, n, kind) for n, side in enumerate(sides)), strict=True)
    keyed = [_keyed(side, condition, n, context, keeps_keys=False) for n, side in enumerate(present)]
    times = [_name_of(side, number) for side, number in zip(sides, (bounds.left, bounds.right), strict=True)]
    lower, upper = bounds.lower_us // 1000, -(-bounds.upper_us // 1000)
    stream = keyed[0].stream.interval_join(
        keyed[1].stream,
        lower=_signed(lower),
        upper=_signed(upper),
        how=kind.value,
        on=(f"l {times[0]}", f"r {times[1]}"),
        uid=context.uids.uid("join", *(each.text for each, _ in condition.keys)),
    )
    made = tuple(context.attribute(field.name, field.type, nullable=field.nullable) for field in stream.schema)
    by_name = {attribute.name: attribute for attribute in made}
    output = {attribute.id: attribute for attribute in plan.output}
    columns = [
        (output.get(attribute.id, attribute), reference(by_name[name]))
        for side, joined_side in zip(sides, keyed, strict=True)
        for attribute, name in zip(side.attributes, joined_side.names, strict=True)
    ]
    joined = projected(Lowered(stream, made), columns, "joined")
    for rows in loose:
        if rows is not None:
            joined = _united(joined, rows)
    on_one = [each for side in sides for each in _own(condition, side)]
    both = [each for each in condition.rest if each not in on_one]
    checks = [*both, *([] if _has_whole_bounds(condition) else plan.expressions["condition"])]
    return kept(joined, conjunction(checks)) if checks else joined


def _is_bounded(condition: JoinCondition) -> bool:
    """Whether time bounds how long a row has to wait for a match, in both directions."""
    bounds = condition.bounds
    return bounds is not None and bounds.lower_us is not None and bounds.upper_us is not None


def _is_exact(condition: JoinCondition, sides: Sequence[Lowered]) -> bool:
    """Whether equal keys and bounds in milliseconds are all that the condition says of pairs of rows."""
    on_one = [each for side in sides for each in _own(condition, side)]
    return len(on_one) == len(condition.rest) and _has_whole_bounds(condition)


def _own(condition: JoinCondition, side: Lowered) -> list[Expression]:
    """Conditions on rows of one side alone."""
    known = {attribute.id for attribute in side.attributes}
    return [each for each in condition.rest if each.references and each.references <= known]


def _has_whole_bounds(condition: JoinCondition) -> bool:
    bounds = condition.bounds
    assert bounds is not None
    return all(found is None or found % 1000 == 0 for found in (bounds.lower_us, bounds.upper_us))


def _signed(milliseconds: int) -> str:
    return f"-{-milliseconds}ms" if milliseconds < 0 else f"{milliseconds}ms"


def _name_of(side: Lowered, number: int) -> str:
    return side.names[[attribute.id for attribute in side.attributes].index(number)]


def _apart(side: Lowered, condition: JoinCondition, number: int, kind: JoinKind) -> tuple[Lowered, Lowered | None]:
    """The rows of a side that may have a match, and those that cannot, if they are wanted.

    A row has none if a key or its time is null, or if it does not meet a condition on its side.
    """
    keys = [pair[number] for pair in condition.keys]
    nullable = [key for key, safe in zip(keys, condition.null_safe, strict=True) if key.nullable and not safe]
    bounds = condition.bounds
    times = () if bounds is None else (bounds.left, bounds.right)[number : number + 1]
    nullable += [reference(each) for each in side.attributes if each.id in times and each.nullable]
    needed = [*(_present(key) for key in nullable), *_own(condition, side)]
    if not needed:
        return side, None
    present = conjunction(needed)
    is_wanted = kind in (JoinKind.FULL, (JoinKind.LEFT, JoinKind.RIGHT)[number])
    true = Expression("Literal", pa.bool_(), (), {"value": True}, False, "true")
    certain = Expression("EqualNullSafe", pa.bool_(), (present, true), {}, False, present.text)
    absent = Expression("Not", pa.bool_(), (certain,), {}, False, f"NOT {present.text}")
    return kept(side, present), kept(side, absent) if is_wanted else None


def _present(key: Expression) -> Expression:
    return Expression("IsNotNull", pa.bool_(), (key,), {}, False, f"({key.text} IS NOT NULL)")


def _united(joined: Lowered, rows: Lowered) -> Lowered:
    """Rows of one side that have no match, with nulls for the other side."""
    known = {attribute.id for attribute in rows.attributes}
    columns = [
        (attribute, reference(attribute) if attribute.id in known else _null(attribute))
        for attribute in joined.attributes
    ]
    return replace(joined, stream=joined.stream.union(projected(rows, columns, "padded").stream))


def _null(attribute: Attribute) -> Expression:
    return Expression("Literal", attribute.type, (), {"value": None}, True, "NULL")
