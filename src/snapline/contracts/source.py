"""Sources: splits that the driver assigns, and readers that read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.config import Duration, duration_ms
from snapline.contracts.dead_letters import OnError
from snapline.contracts.schemas import time_type
from snapline.errors import ConfigurationError

Split: TypeAlias = Any
"""A part of a source that one reader reads alone: plain data (numbers, text, bytes, lists, dicts with text keys).

It is sent between processes and stored in checkpoints.
"""

Position: TypeAlias = Any
"""How far a reader is in a split: plain data; None is the start."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to read for now; the runtime calls `read` again after `seconds`, or earlier."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Rows of several splits, from a reader that keeps event time apart for each of them.

    `runs` are the splits that the rows of `batch` come from, in order, each with how many follow. `ended` are splits
    that are at their ends now. A split that never appears holds event time back until it is idle.
    """

    batch: pa.RecordBatch
    runs: Sequence[tuple[Split, int]]
    ended: Sequence[Split] = ()


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """Here the system outside has drawn the line of a checkpoint: rows before it belong to it, rows after it do not.

    Only from readers of a source with `draws_lines`.
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that a reader cannot read, as `text` if it has any; None if it is all the rest of `file`.

    `file` and `line` say where it is.
    """

    error: Exception
    text: str | None = None
    file: str | None = None
    line: int | None = None


def fail(bad: BadRow) -> None:
    """What to do with a bad row where nobody has said otherwise."""
    raise bad.error


def _nobody(has_backlog: bool) -> None:
    """Takes reports of backlog where nobody wants them."""


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """Where a reader runs, and whom it tells of rows it cannot read.

    A reader calls `bad_row` inside `read`, and goes on with the next row if that returns: the source's `on_error` says
    whether it raises the error, drops the row, or sends it to dead letters. The position after `read` must be behind
    the row. While it has much to catch up with it calls `report_backlog(True)`, also inside `read`, and then
    `report_backlog(False)`: in between `Checkpoints(interval_during_backlog=...)` applies.

    `attempt` grows with every restart of the job; `lineage` differs in every start that is not a restart.
    """

    job_id: str
    uid: str
    subtask: int
    parallelism: int
    bad_row: Callable[[BadRow], None] = field(default=fail, compare=False, repr=False)
    report_backlog: Callable[[bool], None] = field(default=_nobody, compare=False, repr=False)
    lineage: str = ""
    attempt: int = 1


Read: TypeAlias = pa.RecordBatch | SplitRows | CheckpointLine | Wait | None
"""What a reader returns: rows, nothing for now, or the end of all its splits."""


class SourceReader(ABC):
    """Reads splits in one subtask. All calls come from the task's thread; none may block for long."""

    @abstractmethod
    def add_split(self, split: Split, position: Position) -> None:
        """Start to read this split too, from this position."""

    @abstractmethod
    def read(self) -> Read:
        """Returns the next rows, with the schema of the source, or None if all splits so far are at their ends."""

    @abstractmethod
    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        """The splits that are not at their ends, each with the position after the last row that `read` returned.

        They become part of this checkpoint, which `checkpoint_completed` or `checkpoint_aborted` may name later.
        """

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The job will never go back behind the positions of this checkpoint, so they may be committed outside.

        That settles all older ones too. Not every checkpoint is reported.
        """

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never complete. Not every one is reported."""

    def mark_available(self) -> None:
        """Note what there is to read now: somebody waits until it is read."""

    @property
    def has_read_available(self) -> bool:
        """Whether `read` has returned what `mark_available` noted. Only asked after `read` has returned nothing.

        A reader of which `read` may return nothing although there are rows has to look closer.
        """
        return True

    can_pause_splits = False
    """Whether `pause_splits` works; else reading as a whole pauses."""

    def pause_splits(self, splits: Sequence[Split]) -> None:
        """Read only from other splits until the next call, which has all that are to pause then, perhaps none.

        These are too far ahead in event time; see `Watermarks(align=...)`. `read` returns `Wait` if all are.
        """

    def close(self) -> None:
        """Release external resources."""


class Source(ABC):
    """Origin of rows. It is pickled with the job; `reader` is called where tasks run, the rest on the driver.

    Reading a split from a position must always give the same rows, or a restart is not exactly once. Watermarks are
    generated per split if readers return `SplitRows`. Else they are generated per subtask: then a reader with several
    splits reads the oldest rows first, or the rest may be late.
    """

    draws_lines: bool = False
    """Whether the system outside decides where a checkpoint's line is, and readers return it as `CheckpointLine`.

    A master hook of the job asks the system for the line; the subtask then starts the checkpoint when it reads it.
    """

    on_error: OnError | str = OnError.FAIL
    """What to do with rows that a reader reports to `ReaderContext.bad_row`: "fail", "dead_letter" or "drop"."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Schema of every batch that is read."""

    @property
    @abstractmethod
    def is_bounded(self) -> bool:
        """Whether the source comes to an end."""

    @property
    def in_step(self) -> bool:
        """Whether all splits are read at the same time: each subtask gets its share at the start.

        If not, each subtask gets another split whenever it has finished one. Splits that cover the same event times
        must be read in step, or rows of the later splits come late.
        """
        return not self.is_bounded

    @abstractmethod
    def splits(self, parallelism: int) -> Sequence[Split]:
        """The initial splits; called once, when the job starts from scratch."""

    @property
    def discovery_interval_ms(self) -> int | None:
        """How often to look for more splits while the job runs. None disables discovery, as for bounded sources."""
        return None

    max_waiting_splits: int | None = None
    """While more splits than this wait for a reader, `discover` is not called: there is enough to do."""

    def discover(self, known: Any) -> tuple[Sequence[Split], Any]:
        """Returns new splits, and what is `known` now. Called on a thread of its own, one call at a time.

        `known` is None in the first call, before anything runs; later, also after a restart, it is what the last call
        returned: plain data, which is stored in checkpoints together with the splits.
        """
        return (), known

    def all_read(self, known: Any) -> None:
        """All splits that `discover` found up to the call that returned `known` are read, and a checkpoint says so.

        The job will not go back behind them, so the system outside may forget them. Called on a thread of its own, one
        call at a time, for sources that discover splits and do not read them in step.
        """

    @abstractmethod
    def reader(self, context: ReaderContext) -> SourceReader: ...


@dataclass(frozen=True, slots=True, init=False)
class Watermarks:
    """How watermarks follow from rows: the greatest value of `column` so far, minus `delay`.

    Where a source tells its splits apart (Kafka: partitions), each has its own greatest value, and the least counts.

    column: timestamps, or whole numbers of milliseconds since 1970.
    delay: how far a row may lag behind the newest one.
    idle_after: a split, or a subtask, that has read nothing for this long no longer holds watermarks back; 0 disables
        this.
    align: a name; splits and sources with the same one wait for each other.
    max_drift: how far a split may be ahead of the slowest one of its `align` group before it waits.
    """

    column: str
    delay_ms: int
    idle_after_ms: int
    align: str | None
    max_drift_ms: int

    def __init__(
        self,
        column: str,
        *,
        delay: Duration = "0ms",
        idle_after: Duration = "0ms",
        align: str | None = None,
        max_drift: Duration = "1m",
    ) -> None:
        if align is not None and (not isinstance(align, str) or not align):
            raise ConfigurationError(f"Watermarks(align={align!r}): give the name of a group of sources")
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "delay_ms", duration_ms(delay, setting="delay"))
        object.__setattr__(self, "idle_after_ms", duration_ms(idle_after, setting="idle_after"))
        object.__setattr__(self, "align", align)
        object.__setattr__(self, "max_drift_ms", duration_ms(max_drift, setting="max_drift"))

    def check(self, schema: pa.Schema, what: str) -> None:
        """Raise `ConfigurationError` if the rows of `what` have no such column, or one of another type."""
        time_type(self.column, schema, f"watermarks of {what}")


def checked_watermarks(watermarks: Any, schema: pa.Schema, what: str) -> Watermarks:
    """Returns `watermarks`; `ConfigurationError` if it is something else, or does not fit the rows of `what`."""
    if not isinstance(watermarks, Watermarks):
        column = watermarks if isinstance(watermarks, str) else "time"
        raise ConfigurationError(
            f"watermarks of {what}: {watermarks!r} does not say how late rows may come; give "
            f"snapline.Watermarks({column!r}, delay='5s')"
        )
    watermarks.check(schema, what)
    return watermarks
