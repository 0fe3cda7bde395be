"""Windowed streams: the rows of each key by window, ready for an aggregate or a function."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.api.aggregates import Aggregate, accumulators
from snapline.api.expressions import check_own_arguments
from snapline.api.graph_nodes import BaseStream, Input, shown
from snapline.api.guidance import missing, names_its_operators
from snapline.api.windows import (
    EventTimeInterval,
    EveryRows,
    GivenWindow,
    GlobalWindow,
    Session,
    Sliding,
    Trigger,
    Tumbling,
    WhenComplete,
    WindowAssigner,
    bounds_type,
)
from snapline.config import Duration, duration_ms
from snapline.contracts.schemas import SchemaLike, checked_schema, decoded_type, time_type
from snapline.errors import ConfigurationError
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.aggregates.list_accumulators import Collected
from snapline.operators.windows.plain_windows import PlainWindows
from snapline.operators.windows.session_windows import SessionWindows
from snapline.operators.windows.sliced_windows import SlicedWindows, slices_of
from snapline.operators.windows.window_assigners import FixedAssigner, GivenAssigner, GlobalAssigner
from snapline.operators.windows.window_operator import Firing, WindowOperator, WindowSettings
from snapline.operators.windows.window_results import WINDOW_COLUMNS, AggregateResults, FunctionResults, Results
from snapline.state.state_types import resolve

if TYPE_CHECKING:
    from snapline.api.job import Job
    from snapline.api.stream import Stream

_PROCESSING_TIME = pa.timestamp("ms", tz="UTC")
_MAX_COPIES = 1000
"""Most windows a row may be in if each window stores its own rows."""


@names_its_operators
class WindowedStream(BaseStream):
    """Rows of a keyed stream in windows. Immutable: the settings return a copy, `aggregate` and `process` a stream."""

    def __init__(
        self,
        job: Job,
        inputs: tuple[Input, ...],
        schema: pa.Schema,
        key_columns: tuple[str, ...],
        windows: WindowAssigner,
        on: str | None,
    ) -> None:
        super().__init__(job, inputs, key_columns)
        self._schema = schema
        self._windows = windows
        self._trigger: Trigger = WhenComplete()
        self._lateness_ms = 0
        self._late_output: str | None = None
        self._time_column, self._bounds = self._times(on)

    # Settings.

    def allowed_lateness(self, lateness: Duration) -> WindowedStream:
        """Keep windows this long after they are complete: rows that come in that time lead to a new result.

        A row is late if all its windows have been complete for longer; for sessions, if a window of this row alone has.
        """
        if not self._has_end or self._is_processing_time:
            raise ConfigurationError(f"{self}: no row can be late here; leave allowed_lateness() out")
        changed = copy(self)
        changed._lateness_ms = duration_ms(lateness, setting="allowed_lateness")
        return changed

    def late_output(self, name: str) -> WindowedStream:
        """Send late rows to this side output of the result, instead of dropping and counting them."""
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"{self}: late_output({name!r}); give the name of a side output, such as 'late'")
        changed = copy(self)
        changed._late_output = name
        return changed

    def trigger(self, trigger: Trigger) -> WindowedStream:
        """When to emit results: `WhenComplete`, the default, `EveryRows` or `EventTimeInterval`."""
        if not isinstance(trigger, WhenComplete | EveryRows | EventTimeInterval):
            raise ConfigurationError(
                f"{self}: trigger({trigger!r}); give snapline.WhenComplete(...), EveryRows(...) or "
                "EventTimeInterval(...)"
            )
        is_by_row = isinstance(trigger, EveryRows) or getattr(trigger, "early_rows", None) is not None
        if isinstance(self._windows, Session) and (is_by_row or isinstance(trigger, EventTimeInterval)):
            raise ConfigurationError(f"{self}: sessions merge, so their only trigger is WhenComplete(early_every=...)")
        if isinstance(trigger, EventTimeInterval) and (self._is_processing_time or not self._has_end):
            raise ConfigurationError(
                f"{self}: EventTimeInterval needs windows in event time; use WhenComplete(early_every=...)"
            )
        changed = copy(self)
        changed._trigger = trigger
        return changed

    # Results.

    def aggregate(self, *, uid: str | None = None, parallelism: int | None = None, **aggregates: Aggregate) -> Stream:
        """One row per key and window: the key columns, `window_start`, `window_end`, and the named aggregates.

        The bounds have the type of the time column, with milliseconds if that has seconds; the end is exclusive.
        """
        check_own_arguments("window aggregate", uid, parallelism)
        what = f"window aggregate {uid!r}" if uid is not None else "window aggregate"
        taken = dict.fromkeys(self._key_columns, "a key column") | dict.fromkeys(self._columns, "a window column")
        made = accumulators(aggregates, self._schema, taken, what)
        fields = key_fields(self._schema, self._key_columns)
        fields += [pa.field(name, self._bounds) for name in self._columns]
        schema = pa.schema([*fields, *made.fields])
        return self._node("window aggregate", made, AggregateResults(schema, self._bounds), uid, parallelism)

    def process(
        self,
        function: Callable[[Any, Any, pa.Table], Any],
        *,
        schema: SchemaLike,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Call a function for each key and window with all its rows; `schema` is that of the rows it returns.

        It gets the key, a tuple for several columns; the window with `start` and `end`, None for a global one; and a
        table of the rows, in the order of `collect`. It returns a batch, a table, a dict, several of these, or None.
        """
        if not callable(function):
            raise ConfigurationError(f"{self}.process({function!r}): give a function of key, window and table")
        schema = checked_schema(schema, "window process()")
        rows = pa.struct([field.with_type(decoded_type(field.type)).with_nullable(True) for field in self._schema])
        try:
            resolve(rows)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{self}: process() keeps whole rows, and state cannot hold them: {error}"
            ) from error
        kept = Accumulators({"rows": Collected(None, rows, None, None)}, [])
        results = FunctionResults(function, schema, self._bounds)
        return self._node("window process", kept, results, uid, parallelism)

    def _node(
        self, name: str, kept: Accumulators, results: Results, uid: str | None, parallelism: int | None
    ) -> Stream:
        late = {} if self._late_output is None else {self._late_output: self._schema}
        operator = self._operator(kept, results)
        return self._then(name, operator, results.schema, uid, parallelism, has_state=True, side_outputs=late)

    def _operator(self, kept: Accumulators, results: Results) -> WindowOperator:
        windows, firing = self._windows, self._firing()
        settings = WindowSettings(
            self._time_column, self._is_processing_time, self._lateness_ms, self._late_output, firing
        )
        if isinstance(windows, Session):
            return SessionWindows(settings, kept, results, windows.gap_ms)
        if isinstance(windows, GlobalWindow):
            if firing.early_rows is None and firing.early_every_ms is None:
                raise ConfigurationError(
                    f"{self} is never complete, so nothing would be emitted; set a trigger with "
                    ".trigger(snapline.EveryRows(...))"
                )
            return PlainWindows(settings, kept, results, GlobalAssigner())
        if isinstance(windows, GivenWindow):
            return PlainWindows(settings, kept, results, GivenAssigner(windows.start, windows.end))
        if isinstance(windows, Sliding) and firing.early_rows is None and firing.event_every_ms is None:
            slices = slices_of(windows.size_ms, windows.every_ms, windows.offset_ms)
            if slices is not None:
                return SlicedWindows(settings, kept, results, slices)
        copies = -(-windows.size_ms // windows.every_ms)
        if copies > _MAX_COPIES:
            raise ConfigurationError(
                f"{self}: every row would be in {copies} windows that cannot share their sums; let every= divide size, "
                f"without early_rows or event-time intervals, or at most {_MAX_COPIES} windows"
            )
        return PlainWindows(
            settings, kept, results, FixedAssigner(windows.size_ms, windows.every_ms, windows.offset_ms)
        )

    def _firing(self) -> Firing:
        trigger = self._trigger
        if isinstance(trigger, EveryRows):
            return Firing(early_rows=trigger.n, is_purging=trigger.purge, at_end=False)
        if isinstance(trigger, EventTimeInterval):
            return Firing(event_every_ms=trigger.every_ms)
        return Firing(early_rows=trigger.early_rows, early_every_ms=trigger.early_every_ms)

    # Event time.

    @property
    def _is_processing_time(self) -> bool:
        return bool(getattr(self._windows, "processing_time", False))

    @property
    def _has_end(self) -> bool:
        return not isinstance(self._windows, GlobalWindow)

    @property
    def _columns(self) -> tuple[str, ...]:
        """The window columns of the result that are not key columns."""
        return tuple(name for name in WINDOW_COLUMNS if name not in self._key_columns) if self._has_end else ()

    def _check_names(self) -> None:
        """Raise `ConfigurationError` if a key column, except those of a given window, is named like a window column."""
        windows = self._windows
        allowed = (windows.start, windows.end) if isinstance(windows, GivenWindow) else ()
        for name, bound in zip(WINDOW_COLUMNS, allowed or (None, None), strict=True):
            if self._has_end and name in self._key_columns and name != bound:
                raise ConfigurationError(
                    f"{self}: the key column {name!r} has the name of a result column; rename it before key_by(), or "
                    "use GivenWindow() if it is the window of the rows"
                )

    def _times(self, on: str | None) -> tuple[str | None, pa.DataType | None]:
        """The time column of the rows, and the type of the window bounds."""
        windows = self._windows
        if not isinstance(windows, Tumbling | Sliding | Session | GlobalWindow | GivenWindow):
            raise ConfigurationError(
                f"window({windows!r}): give snapline.Tumbling(...), Sliding, Session, GlobalWindow or GivenWindow"
            )
        self._check_names()
        if self._is_processing_time or not self._has_end:
            if on is not None:
                raise ConfigurationError(f"{self}: on={on!r} has no effect without event time; leave it out")
            return None, _PROCESSING_TIME if self._has_end else None
        candidates = self._event_time
        if candidates is None:
            raise ConfigurationError(
                f"{self}: there are no watermarks, so no window would ever be complete; give the source "
                "watermarks=snapline.Watermarks(column), use .with_watermarks(), or windows with processing_time=True"
            )
        if isinstance(windows, GivenWindow):
            if on is not None:
                raise ConfigurationError(
                    f"{self}: on={on!r} has no effect: the rows contain their window; leave it out"
                )
            kinds = [self._time_kind(name) for name in (windows.start, windows.end)]
            if kinds[0] != kinds[1]:
                raise ConfigurationError(
                    f"{self}: {windows.start!r} is {kinds[0]} and {windows.end!r} is {kinds[1]}; cast one of them"
                )
            return None, kinds[0]
        if on is None:
            if len(candidates) != 1 or not candidates <= set(self._schema.names):
                made_of, known = (", ".join(map(repr, names)) for names in (sorted(candidates), self._schema.names))
                raise ConfigurationError(
                    f"{self}: the watermarks come from {made_of}, which does not identify the time column; "
                    f"give on= with one of {known}"
                )
            (on,) = candidates
        return on, self._time_kind(on)

    def _time_kind(self, column: str) -> pa.DataType:
        """The type of window bounds for a time column."""
        return bounds_type(time_type(column, self._schema, str(self)))

    def __str__(self) -> str:
        return f"window {self._windows}"

    def __repr__(self) -> str:
        key = ", ".join(map(repr, self._key_columns))
        return f"<WindowedStream {self._windows} by {key} {shown(self._inputs, self._schema)}>"

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name)


def key_fields(schema: pa.Schema, key_columns: tuple[str, ...]) -> list[pa.Field]:
    """The key columns of a result: those of the rows, decoded if they are dictionaries."""
    return [schema.field(name).with_type(decoded_type(schema.field(name).type)) for name in key_columns]
