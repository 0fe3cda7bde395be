"""Joins of keyed streams: arguments are checked, and nodes made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.api.expressions import check_predicate
from snapline.api.windows import Sliding, Tumbling, bounds_type
from snapline.config import Duration, duration_ms
from snapline.contracts.schemas import checked_schema, time_type
from snapline.errors import ConfigurationError
from snapline.operators.joins.interval_join import Interval, JoinIntervals
from snapline.operators.joins.join_rows import LEFT, NAMES, RIGHT, JoinLayout
from snapline.operators.joins.regular_join import JoinStreams
from snapline.operators.joins.window_join import JoinWindows
from snapline.operators.kept_rows import RowType, kept_type
from snapline.operators.windows.window_assigners import FixedAssigner
from snapline.operators.windows.window_results import WINDOW_COLUMNS
from snapline.state.state_types import has_views, resolve
from snapline.state.ttl import Lifetime, as_ttl

if TYPE_CHECKING:
    from snapline.api.keyed_stream import KeyedStream
    from snapline.api.stream import Stream

Suffixes: TypeAlias = tuple[str, str]
"""Appended to the names of left and right columns that both sides have."""

_PADDED = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}
_MAX_COPIES = 1000


def join(
    self: KeyedStream,
    right: KeyedStream,
    *,
    how: str = "inner",
    ttl: Lifetime | None = None,
    where: pc.Expression | None = None,
    suffixes: Suffixes = ("", "_right"),
    change_column: str = "change",
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Join each row of this stream with each row of another one that has the same key, whichever comes first.

    Key columns appear once, under the names they have here; other columns that both streams have get `suffixes`.
    `how` is "inner", "left", "right" or "full". In an outer join a row without a match is emitted with nulls at
    once, and retracted when its first match arrives: `change_column` says "insert" or "delete". `where`, an
    expression over the joined row, must also hold. Rows are kept forever, or with `ttl` at least that long.
    """
    padded = _checked_how("join", how)
    added = [pa.field(change_column, pa.string(), nullable=False)] if any(padded) else []
    layout = _layout("join", self, right, padded, suffixes, added)
    if where is not None:
        if not isinstance(where, pc.Expression):
            raise ConfigurationError(f"join: where={where!r}; give an expression such as pc.field('price') > 0")
        try:
            check_predicate(where, layout.schema)
        except ConfigurationError as error:
            raise ConfigurationError(f"join: where= does not fit the joined rows: {error}") from error
    operator = JoinStreams(layout, padded, as_ttl(ttl, "join"), where)
    return self.connect(right)._then("join", operator, layout.schema, uid, parallelism, has_state=True)


def interval_join(
    self: KeyedStream,
    right: KeyedStream,
    *,
    lower: Duration,
    upper: Duration,
    how: str = "inner",
    on: tuple[str, str] | None = None,
    suffixes: Suffixes = ("", "_right"),
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Join each row of this stream with rows of another one that have the same key and are close in time.

    The time of the right row is from `lower` to `upper` after that of the left row, inclusive; "-5s" is earlier.
    `on` are the time columns of both, by default those of their watermarks. In an outer join, rows without a match
    are emitted with nulls once the watermark rules one out. Late rows are dropped, or read from the side outputs
    "late_left" and "late_right".
    """
    padded = _checked_how("interval_join", how)
    lower_ms, upper_ms = _signed_ms(lower, "lower"), _signed_ms(upper, "upper")
    if lower_ms > upper_ms:
        raise ConfigurationError(
            f"interval_join: lower={lower!r} is later than upper={upper!r}; swap them: a right row matches a left row "
            "if its time is between that + lower and that + upper"
        )
    layout = _layout("interval_join", self, right, padded, suffixes)
    columns = _time_columns("interval_join", self, right, on)
    for stream, column, side in zip((self, right), columns, NAMES, strict=True):
        if column in stream.key_columns:
            raise ConfigurationError(
                f"interval_join: the time column {column!r} of the {side} side is one of its keys; key by others"
            )
    operator = JoinIntervals(layout, Interval(lower_ms, upper_ms), columns, padded)
    late = _late_outputs(self, right)
    return self.connect(right)._then(
        "interval_join", operator, layout.schema, uid, parallelism, has_state=True, side_outputs=late
    )


def window_join(
    self: KeyedStream,
    right: KeyedStream,
    window: Tumbling | Sliding,
    *,
    how: str = "inner",
    on: tuple[str, str] | None = None,
    suffixes: Suffixes = ("", "_right"),
    uid: str | None = None,
    parallelism: int | None = None,
) -> Stream:
    """Join each row of this stream with each row of another one that has the same key and is in the same window.

    Results are emitted once the watermark has passed the end of the window, with the columns `window_start` and
    `window_end`; in an outer join rows without a match are emitted with nulls then. `on` and late rows are as for
    `interval_join`.
    """
    padded = _checked_how("window_join", how)
    windows = _fixed_windows(window)
    columns = _time_columns("window_join", self, right, on)
    bound = bounds_type(self.schema.field(columns[LEFT]).type)
    bounds = [pa.field(name, bound, nullable=False) for name in WINDOW_COLUMNS]
    layout = _layout("window_join", self, right, padded, suffixes, bounds)
    operator = JoinWindows(layout, windows, columns, padded)
    late = _late_outputs(self, right)
    return self.connect(right)._then(
        "window_join", operator, layout.schema, uid, parallelism, has_state=True, side_outputs=late
    )


def _late_outputs(left: KeyedStream, right: KeyedStream) -> dict[str, pa.Schema]:
    return {f"late_{side}": stream.schema for side, stream in zip(NAMES, (left, right), strict=True)}


# Checks.


def _checked_how(call: str, how: Any) -> tuple[bool, bool]:
    """For each side, whether its rows are emitted without a match too."""
    if how not in _PADDED:
        raise ConfigurationError(f"{call}: how={how!r}; use one of {', '.join(map(repr, _PADDED))}")
    return _PADDED[how]


def _fixed_windows(window: Any) -> FixedAssigner:
    if not isinstance(window, Tumbling | Sliding) or window.processing_time:
        raise ConfigurationError(
            f"window_join({window}): give event-time windows of a fixed size, Tumbling(...) or Sliding(...)"
        )
    copies = -(-window.size_ms // window.every_ms)
    if copies > _MAX_COPIES:
        raise ConfigurationError(
            f"window_join({window}): every row would be kept in {copies} windows; use at most {_MAX_COPIES}, or "
            "interval_join()"
        )
    return FixedAssigner(window.size_ms, window.every_ms, window.offset_ms)


def _signed_ms(value: Duration, setting: str) -> int:
    if isinstance(value, str) and value.strip().startswith("-"):
        return -duration_ms(value.strip()[1:], setting=setting)
    if isinstance(value, timedelta) and value < timedelta(0):
        return -duration_ms(-value, setting=setting)
    return duration_ms(value, setting=setting)


def check_suffixes(call: str, suffixes: Any) -> Suffixes:
    if not isinstance(suffixes, tuple | list) or [isinstance(suffix, str) for suffix in suffixes] != [True, True]:
        raise ConfigurationError(f"{call}: suffixes={suffixes!r}; give one for each side, such as ('', '_right')")
    return suffixes[LEFT], suffixes[RIGHT]


def check_storable(call: str, fields: Iterable[pa.Field]) -> None:
    """Raise `ConfigurationError` if state cannot hold one of these columns."""
    for field in fields:
        try:
            resolve(field.type)
        except ConfigurationError as error:
            raise _not_storable(call, field, str(error)) from error
        if has_views(field.type):
            raise _not_storable(call, field, "views cannot be kept inside other types")


def _not_storable(call: str, field: pa.Field, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{call}: rows are kept, and the column {field.name!r} of the type {field.type} cannot be: {why}. Cast it, or "
        "drop it before the call"
    )


def _time_columns(call: str, left: KeyedStream, right: KeyedStream, on: tuple[str, str] | None) -> tuple[str, str]:
    """The time column of each side."""
    found: list[str] = []
    for side, stream in enumerate((left, right)):
        known = stream._event_time
        if known is None:
            raise ConfigurationError(
                f"{call}: the {NAMES[side]} side has no watermarks, which say when all rows up to a time have arrived; "
                "give the source watermarks=snapline.Watermarks(column), or use with_watermarks() before key_by()"
            )
        if on is None:
            there = [name for name in stream.schema.names if name in known]
            if len(there) != 1:
                raise ConfigurationError(
                    f"{call}: watermarks of the {NAMES[side]} side come from {', '.join(map(repr, sorted(known)))}, "
                    f"and its rows have {len(there)} of these columns; choose one with on=(left, right)"
                )
            found.append(there[0])
            continue
        if not isinstance(on, Sequence) or isinstance(on, str) or len(on) != len(NAMES):
            raise ConfigurationError(f"{call}: on={on!r}; give the time columns of both sides, on=(left, right)")
        time_type(on[side], stream.schema, f"{call}, {NAMES[side]} side")
        found.append(on[side])
    return found[LEFT], found[RIGHT]


def _check_keys(call: str, left: KeyedStream, right: KeyedStream) -> None:
    ours, theirs = left.key_columns, right.key_columns
    if len(ours) != len(theirs):
        raise ConfigurationError(
            f"{call}: the left side is keyed by {', '.join(map(repr, ours))}, the right one by "
            f"{', '.join(map(repr, theirs))}; key both by the same number of columns"
        )
    for one, other in zip(ours, theirs, strict=True):
        kinds = kept_type(left.schema.field(one).type), kept_type(right.schema.field(other).type)
        if kinds[LEFT] != kinds[RIGHT]:
            raise ConfigurationError(
                f"{call}: the key column {one!r} of the left side is {kinds[LEFT]}, {other!r} of the right one is "
                f"{kinds[RIGHT]}; cast one of them with with_columns() before key_by()"
            )


def _layout(
    call: str,
    left: KeyedStream,
    right: KeyedStream,
    padded: tuple[bool, bool],
    suffixes: Suffixes,
    added: Sequence[pa.Field] = (),
) -> JoinLayout:
    """Layout of the result: all left columns in their order, the right ones without the key, then added ones."""
    if not hasattr(right, "key_columns"):
        raise ConfigurationError(f"{call}: the right side is not keyed; write {call}(right.key_by(...)), not {right!r}")
    if right._job is not left._job:
        raise ConfigurationError(f"{call}: the right side is a stream of another job; join streams of one job")
    check_suffixes(call, suffixes)
    _check_keys(call, left, right)
    sides = RowType(left.schema, left.key_columns), RowType(right.schema, right.key_columns)
    for kind in sides:
        check_storable(call, kind.fields)
    keys = [pa.field(name, kept_type(left.schema.field(name).type)) for name in left.key_columns]
    ours = _named(sides[LEFT], left.schema, sides[RIGHT].columns, suffixes[LEFT], is_padded=padded[RIGHT])
    theirs = _named(sides[RIGHT], right.schema, left.schema.names, suffixes[RIGHT], is_padded=padded[LEFT])
    fields = [*keys, *ours, *theirs, *added]
    numbers = {name: number for number, name in enumerate((*left.key_columns, *sides[LEFT].columns))}
    order = [numbers[name] for name in left.schema.names]
    order += range(len(order), len(fields))
    names = [fields[number].name for number in order]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"{call}: there would be two columns {name!r}; give other suffixes=, or rename() one of them first"
            )
    return JoinLayout(sides, checked_schema(pa.schema([fields[number] for number in order]), call), tuple(order))


def _named(kind: RowType, schema: pa.Schema, others: Iterable[str], suffix: str, *, is_padded: bool) -> list[pa.Field]:
    """The result columns of a side: nullable if padded, with the suffix where another column has the same name."""
    return [
        field.with_name(field.name + suffix if field.name in others else field.name).with_nullable(
            is_padded or schema.field(field.name).nullable
        )
        for field in kind.fields
    ]
