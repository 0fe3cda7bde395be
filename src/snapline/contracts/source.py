"""What a source is: splits that are dealt out on the driver, and readers that read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.config import Duration, duration_ms
from snapline.contracts.schemas import no_column
from snapline.errors import ConfigurationError

Split: TypeAlias = Any
"""A part of a source that one reader reads by itself: plain data (numbers, text, bytes, lists, dicts with text keys).

It travels between processes and is kept in checkpoints.
"""

Position: TypeAlias = Any
"""How far a reader is in a split: plain data; None is its beginning."""


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to read for so long; the runtime asks again then, or earlier."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """Where a reader runs."""

    job_id: str
    uid: str
    subtask: int
    parallelism: int


class SourceReader(ABC):
    """Reads splits in one subtask. All calls come from the task's thread; none may block for long."""

    @abstractmethod
    def add_split(self, split: Split, position: Position) -> None:
        """Read this split too, from a position on."""

    @abstractmethod
    def read(self) -> pa.RecordBatch | Wait | None:
        """The next rows, with the schema of the source; None if all splits that were added are read to their ends."""

    @abstractmethod
    def positions(self) -> Sequence[tuple[Split, Position]]:
        """The splits that are not read to their ends, each with the position behind the last row that `read` gave."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The positions of this checkpoint will never be gone back behind."""

    def close(self) -> None:
        """Release everything outside."""


class Source(ABC):
    """Where rows come from. It is pickled with the job; `reader` is called where tasks run, the rest on the driver.

    What a split holds from a position on must be the same whenever it is read, or a restart is not exactly once.
    Watermarks are told for a subtask, not for each of its splits: a reader with several of them reads what is oldest
    first, or rows of the others may be late.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Of every batch that is read."""

    @property
    @abstractmethod
    def is_bounded(self) -> bool:
        """Whether the rows end some time."""

    @property
    def in_step(self) -> bool:
        """Whether all splits are to be read at the same time: each subtask has a share of its own from the start.

        If not, splits go one by one to whoever has read all it had. Splits that hold rows of the same event time must
        be read in step, or those of the later ones come late.
        """
        return not self.is_bounded

    @abstractmethod
    def splits(self, parallelism: int) -> Sequence[Split]:
        """The splits there are from the beginning; called once, when the job starts from there."""

    @property
    def discovery_interval_ms(self) -> int | None:
        """How often to look for more splits while the job runs; none is never, as it is for one that is bounded."""
        return None

    def discover(self, known: Any) -> tuple[Sequence[Split], Any]:
        """Splits nobody has been told of yet, and what is `known` now; on a thread of its own, one call at a time.

        The first call, before anything runs, is given None, every later one what the last gave, also after a restart:
        it is kept in checkpoints together with the splits, as plain data.
        """
        return (), known

    @abstractmethod
    def reader(self, context: ReaderContext) -> SourceReader: ...


@dataclass(frozen=True, slots=True, init=False)
class Watermarks:
    """How event time is told from rows: the greatest value of `column` so far, less what may come late.

    column: timestamps, or whole numbers of milliseconds since 1970.
    delay: how much later than the newest row a row may come.
    idle_after: a subtask that has read nothing for so long is left out when event time is told; 0 never is.
    """

    column: str
    delay_ms: int
    idle_after_ms: int

    def __init__(self, column: str, *, delay: Duration = "0ms", idle_after: Duration = "0ms") -> None:
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "delay_ms", duration_ms(delay, setting="delay"))
        object.__setattr__(self, "idle_after_ms", duration_ms(idle_after, setting="idle_after"))

    def check(self, schema: pa.Schema, what: str) -> None:
        """`ConfigurationError` if event time cannot be told so from the rows of `what`."""
        if not isinstance(self.column, str) or self.column not in schema.names:
            raise ConfigurationError(f"watermarks of {what}: {no_column(self.column, schema)}")
        kind = schema.field(self.column).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
            raise ConfigurationError(
                f"watermarks of {what}: the column {self.column!r} is {kind}; use a timestamp, or whole numbers of "
                "milliseconds since 1970"
            )


def checked_watermarks(watermarks: Any, schema: pa.Schema, what: str) -> Watermarks:
    """`watermarks`; `ConfigurationError` if they are none, or do not fit the rows of `what`."""
    if not isinstance(watermarks, Watermarks):
        column = watermarks if isinstance(watermarks, str) else "time"
        raise ConfigurationError(
            f"watermarks of {what}: {watermarks!r} does not say how late rows may come; give "
            f"snapline.Watermarks({column!r}, delay='5s')"
        )
    watermarks.check(schema, what)
    return watermarks
