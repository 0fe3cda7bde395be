"""A PySpark data source as a source."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import cloudpickle
import pyarrow as pa

from snapline.config import Duration, duration_ms
from snapline.connectors.data_source.late_pyspark import data_source_types
from snapline.connectors.data_source.offset_reader import OffsetReader
from snapline.connectors.data_source.offsets import offset_text
from snapline.connectors.data_source.partition_reader import PartitionReader
from snapline.connectors.data_source.user_data_source import Options, UserDataSource
from snapline.contracts.schemas import SchemaLike
from snapline.contracts.source import ReaderContext, Source, SourceReader, Split
from snapline.errors import ConfigurationError, UserCodeError
from snapline.text import shortened

_MAX_RANGES = 16
"""How many ranges of a reader that limits them are planned in one go while it is behind."""

_MAX_BOUNDED_RANGES = 100_000


class _Kind(Enum):
    BATCH = "reader"
    STREAM = "streamReader"
    SIMPLE = "simpleStreamReader"


class DataSource(Source):
    """The rows of a data source that is written for PySpark, a `pyspark.sql.datasource.DataSource`.

    One with `streamReader` is planned on the driver: each range of offsets becomes partitions, which all subtasks read.
    One with `simpleStreamReader` is read by one subtask. Both are told to `commit` an offset once a completed
    checkpoint holds that everything up to it was read. One with `reader` only is bounded.

    options: what the data source gets as its `options`; values may be `Secret`.
    schema: of the rows, as for `spark.readStream.schema`; by default the data source's own `schema()`.
    bounded: True reads what is there at the start, with `reader` if there is one, and ends; False needs a stream
        reader. By default a data source with a stream reader is unbounded.
    poll_interval: how often to look for new offsets.
    """

    max_waiting_splits = 64
    """Ranges are planned while they are needed, as in Spark: a job that is behind gets larger ones."""

    def __init__(
        self,
        source: Any,
        options: Options | None = None,
        *,
        schema: SchemaLike | None = None,
        bounded: bool | None = None,
        poll_interval: Duration = "1s",
    ) -> None:
        self._user = UserDataSource(source, options, "sources.DataSource")
        self._poll_ms = duration_ms(poll_interval, setting="poll_interval")
        if self._poll_ms == 0:
            raise ConfigurationError(f'{self._user}: poll_interval={poll_interval!r}: use more, for example "100ms"')
        self._kind = self._chosen(bounded)
        self._is_bounded = self._kind is _Kind.BATCH or bool(bounded)
        self._schema, self._struct = data_source_types().schemas(self._declared(schema), str(self._user))
        self._guard = threading.Lock()
        self._planner: Any = None
        self._committed = ""

    def __getstate__(self) -> dict[str, Any]:
        # Only the driver plans.
        return {**self.__dict__, "_guard": None, "_planner": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._guard = threading.Lock()

    def _chosen(self, bounded: bool | None) -> _Kind:
        there = [kind for kind in (_Kind.STREAM, _Kind.SIMPLE, _Kind.BATCH) if self._user.implements(kind.value)]
        if bounded is True:
            there.sort(key=lambda kind: kind is not _Kind.BATCH)
        elif bounded is False:
            there = [kind for kind in there if kind is not _Kind.BATCH]
        if not there:
            wanted = "streamReader() or simpleStreamReader()"
            raise ConfigurationError(
                f"{self._user} has no method {wanted if bounded is False else f'reader(), {wanted}'}; implement one"
            )
        return there[0]

    def _declared(self, schema: SchemaLike | None) -> Any:
        if schema is not None:
            return schema
        try:
            with self._user.calling("schema()"):
                return self._user.made().schema()
        except UserCodeError as error:
            raise ConfigurationError(f"{error}; implement schema(), or give schema=") from error

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return self._is_bounded

    @property
    def in_step(self) -> bool:
        return self._kind is _Kind.SIMPLE

    @property
    def discovery_interval_ms(self) -> int | None:
        return self._poll_ms if self._kind is _Kind.STREAM and not self._is_bounded else None

    def splits(self, parallelism: int) -> Sequence[Split]:
        with self._guard:
            if self._kind is _Kind.SIMPLE:
                return [{"start": self._initial()}]
            if self._kind is _Kind.BATCH:
                return self._batch_splits()
            return self._planned_to_the_end() if self._is_bounded else ()

    def discover(self, known: Any) -> tuple[Sequence[Split], Any]:
        """`known` is the offset up to which partitions are planned, and how many there were."""
        with self._guard:
            plan = _Plan(self._initial(), 0) if known is None else _Plan(*known)
            splits: list[Split] = []
            for _ in range(_MAX_RANGES if self._is_limited() else 1):
                found, after = self._next_range(plan)
                splits += found
                if after == plan:
                    break
                plan = after
            return splits, list(plan)

    def all_read(self, known: Any) -> None:
        end, partitions = known
        with self._guard:
            # Told again with every checkpoint, also while nothing is new.
            if partitions and end != self._committed:
                with self._user.calling("commit()"):
                    self._reader().commit(json.loads(end))
                self._committed = end

    def reader(self, context: ReaderContext) -> SourceReader:
        what = f"the source {context.uid!r}, {self._user}"
        if self._kind is _Kind.SIMPLE:
            return OffsetReader(
                self._user, self._schema, self._struct, what, poll_ms=self._poll_ms, is_bounded=self._is_bounded
            )
        return PartitionReader(self._user, self._kind.value, self._schema, self._struct, what)

    # Planning, on the driver. As in Spark there is one reader for it, and one call of it at a time.

    def _reader(self) -> Any:
        if self._planner is None:
            self._planner = self._made()
            stop = getattr(self._planner, "stop", None)
            if stop is not None:
                # Nobody says when a job has ended for good: with the source, or with the program.
                weakref.finalize(self, stop)
        return self._planner

    def _made(self) -> Any:
        with self._user.calling(f"{self._kind.value}()"):
            return getattr(self._user.made(), self._kind.value)(self._struct)

    def _initial(self) -> str:
        with self._user.calling("initialOffset()"):
            return self._offset(self._reader().initialOffset(), "initialOffset()")

    def _offset(self, offset: Any, call: str) -> str:
        return offset_text(offset, f"{self._user}: {call}")

    def _is_limited(self) -> bool:
        with self._user.calling("getDefaultReadLimit()"):
            return bool(data_source_types().is_limited(self._reader()))

    def _next_range(self, plan: _Plan, *, everything: bool = False) -> tuple[list[Split], _Plan]:
        """The partitions from the end of the plan to the latest offset, and the plan with them."""
        start, reader = json.loads(plan.end), self._reader()
        with self._user.calling("latestOffset()"):
            latest = data_source_types().latest_offset(reader, start, everything=everything)
        end = self._offset(latest, "latestOffset()")
        if json.loads(end) == start:
            return [], plan
        with self._user.calling("partitions()"):
            partitions = list(reader.partitions(start, json.loads(end)))
        return self._as_splits(partitions, plan.partitions), _Plan(end, plan.partitions + len(partitions))

    def _planned_to_the_end(self) -> list[Split]:
        with self._user.calling("prepareForTriggerAvailableNow()"):
            has_end = data_source_types().stop_growing(self._reader())
        plan = _Plan(self._initial(), 0)
        splits: list[Split] = []
        # Without an end of its own the reader may always find more: one range, as in Spark.
        for _ in range(_MAX_BOUNDED_RANGES):
            found, after = self._next_range(plan, everything=not has_end)
            splits += found
            if after == plan or not has_end:
                return splits
            plan = after
        raise UserCodeError(
            f"{self._user}: latestOffset() still rises after {_MAX_BOUNDED_RANGES} ranges; with bounded=True it must "
            "stop at what was there when prepareForTriggerAvailableNow() was called"
        )

    def _batch_splits(self) -> list[Split]:
        reader = self._made()
        before = _pickled(reader)
        with self._user.calling("partitions()"):
            partitions = list(reader.partitions() or ())
        splits = self._as_splits(partitions or [data_source_types().single_partition()], 0)
        after = _pickled(reader)
        if after is not None and after != before:
            # What it has noted while planning must reach `read`, as in Spark.
            for split in splits:
                split["reader"] = after
        return splits

    def _as_splits(self, partitions: Sequence[Any], first: int) -> list[Split]:
        for partition in partitions:
            if not data_source_types().is_partition(partition):
                raise UserCodeError(
                    f"{self._user}: partitions() gave {shortened(partition)}; it must give a list of InputPartition"
                )
        with self._user.calling("pickling what partitions() gave"):
            return [
                {"number": first + number, "partition": cloudpickle.dumps(partition)}
                for number, partition in enumerate(partitions)
            ]


class _Plan(NamedTuple):
    """The offset up to which partitions are planned, as JSON, and how many there were."""

    end: str
    partitions: int


def _pickled(reader: Any) -> bytes | None:
    try:
        data: bytes = cloudpickle.dumps(reader)
    except Exception:
        return None  # then it is made anew where tasks run
    return data
