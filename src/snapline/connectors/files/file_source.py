"""Files as a source: those that exist now, or all that appear in a directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa

from snapline.config import Duration, StorageOptions, StorageOptionsLike, duration_ms
from snapline.config import Path as AnyPath
from snapline.connectors.files.file_formats import READ_FORMATS, infer_schema, open_rows, row_groups
from snapline.connectors.files.file_listing import FileSet
from snapline.connectors.files.file_rows import FileRows
from snapline.connectors.files.file_steps import FileSteps, StepLimit
from snapline.connectors.files.line_rows import LineParser
from snapline.connectors.files.partition_paths import values_in, with_values
from snapline.contracts.dead_letters import OnError, checked_on_error
from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.contracts.source import BadRow, Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.errors import ConfigurationError, RestoreError, StorageError, UserCodeError

T = TypeVar("T")

MAX_WATCHED_FILES = 200_000

_PARTS_PER_SUBTASK = 4


class Files(Source):
    """Reads files once each: a single file, all files below a directory, or all that match a pattern.

    Files whose name starts with a dot or an underscore are skipped. With `watch` the source never ends and looks for
    new files at that interval. A file must be complete when it appears, so write it under a hidden name and rename it.
    Do not change it before it is read; later changes are ignored.

    format: "parquet", "orc", "csv" (with column names in the first line), "jsonl" (one JSON object per line) or "text"
        (one column of text, a row for each line).
    schema: the columns to read; None reads all columns of the first file found now. Other columns are dropped.
    header: False for CSV files without column names, which have the columns of `schema`.
    parse: for text, a function that makes rows of lines: it gets an array of them and the schema to return. Without
        `header=False` the first line of each file is left out.
    partitions: whether directories are read as Hive and Spark do: columns may be in their names, as in `country=se`,
        other directories are left out, and a pattern may match directories, of which all files are read. In Parquet
        files, columns are found whatever the case of their names, and are null where a file does not have them.
    files_per_checkpoint, bytes_per_checkpoint: with `watch`, how much to read between two checkpoints at most: the
        oldest new files first, at least one. With `latest_first` the newest come first.
    on_error: what happens to rows, and to files, whose content cannot be read: they "fail" the job, go to
        `stream.dead_letters` ("dead_letter"), or are skipped ("drop"). Storage that fails always fails the job.
    storage_options: how to reach remote storage, such as `sl.S3(...)`. They are those of these files alone: checkpoints
        have their own in `Checkpoints`.
    """

    in_step = False

    def __init__(
        self,
        path: AnyPath,
        *,
        format: str = "parquet",
        schema: SchemaLike | None = None,
        watch: Duration | None = None,
        header: bool = True,
        parse: LineParser | None = None,
        partitions: bool = False,
        files_per_checkpoint: int | None = None,
        bytes_per_checkpoint: int | None = None,
        latest_first: bool = False,
        on_error: str = "fail",
        storage_options: StorageOptionsLike | None = None,
    ) -> None:
        self.on_error = checked_on_error(on_error, "Files")
        if format not in READ_FORMATS:
            raise ConfigurationError(f"Files(format={format!r}): use one of {', '.join(map(repr, READ_FORMATS))}")
        if not header and parse is None and (format != "csv" or schema is None):
            raise ConfigurationError("Files(header=False): only for CSV files, and with schema=")
        if parse is not None and (format != "text" or schema is None):
            raise ConfigurationError("Files(parse=...): only for the format text, and with schema=")
        self._format = format
        self._header = header
        self._parse = parse
        self._has_partitions = partitions
        self._files = FileSet(path, StorageOptions.of(storage_options), directories=partitions)
        self._watch_ms = None if watch is None else duration_ms(watch, setting="watch")
        if self._watch_ms == 0:
            raise ConfigurationError(f'Files(watch={watch!r}): the interval must be positive; use for example "1s"')
        if watch is not None and self._files.is_single:
            raise ConfigurationError(f"Files({str(self._files)!r}, watch=...): this is one file; watch its directory")
        limit = StepLimit(files_per_checkpoint, bytes_per_checkpoint, latest_first)
        self.steps: FileSteps | None = None
        """On the driver, if there is a limit for each checkpoint."""
        if limit != StepLimit():
            if watch is None:
                raise ConfigurationError("Files(files_per_checkpoint=...): only with watch=, for example watch='1s'")
            self.steps = FileSteps(limit, lambda: self._checked(self._files.find_dated()))
        if schema is None:
            names = self._files.find()
            if not names:
                raise ConfigurationError(
                    f"Files({str(self._files)!r}): there are no files to infer the columns from; check the path, or "
                    "give schema="
                )
            schema = infer_schema(self._full(names[0]), format, self._files.options)
        self._schema = checked_schema(schema, f"Files({str(self._files)!r})")
        lines = self._schema.types[:1] if partitions else self._schema.types
        if format == "text" and parse is None and lines != [pa.string()]:
            raise ConfigurationError("Files(format='text'): the schema of lines has one column of text")

    def __getstate__(self) -> dict[str, Any]:
        # Only the driver hands out files.
        return {**self.__dict__, "steps": None}

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return self._watch_ms is None

    @property
    def discovery_interval_ms(self) -> int | None:
        return self._watch_ms

    def splits(self, parallelism: int) -> Sequence[Split]:
        """One split per file; few Parquet files are split further into ranges of row groups."""
        if self._watch_ms is not None:
            return ()
        names = self._files.find()
        parts = -(-_PARTS_PER_SUBTASK * parallelism // max(len(names), 1))
        if self._format != "parquet" or parts <= 1:
            return [_whole(self._full(name)) for name in names]
        return [part for name in names for part in self._parts(self._full(name), parts)]

    def discover(self, known: Any) -> tuple[Sequence[Split], Any]:
        """One split per file that is not in `known`; deleted files are forgotten."""
        if self.steps is not None:
            new, after = self.steps.next(known or ())
            return [_whole(self._full(name)) for name in new], after
        names = self._checked(self._files.find())
        before = frozenset(known or ())
        return [_whole(self._full(name)) for name in names if name not in before], names

    def all_read(self, known: Any) -> None:
        if self.steps is not None:
            self.steps.settled(known)

    def _checked(self, found: list[T]) -> list[T]:
        """Raises `StorageError` for more files than can be watched."""
        if len(found) > MAX_WATCHED_FILES:
            raise StorageError(
                f"there are {len(found)} files in {str(self._files)!r}, and at most {MAX_WATCHED_FILES} can be "
                "watched; move files that have been read elsewhere"
            )
        return found

    def reader(self, context: ReaderContext) -> SourceReader:
        return FilesReader(
            self._format,
            self._schema,
            context.bad_row,
            self._files.options,
            header=self._header,
            parse=self._parse,
            partitions_below=len(self._files.root) if self._has_partitions else None,
        )

    def _parts(self, path: str, parts: int) -> list[Split]:
        """At most `parts` splits of a Parquet file."""
        try:
            groups = row_groups(path, self._files.options)
        except UserCodeError:
            if self.on_error is OnError.FAIL:
                raise
            return [_whole(path)]  # its reader reports it
        parts = max(min(parts, groups), 1)
        ends = [groups * part // parts for part in range(parts + 1)]
        return [{"path": path, "groups": [first, end]} for first, end in pairwise(ends)]

    def _full(self, name: str) -> str:
        return f"{self._files.root}/{name}"


class FilesReader(SourceReader):
    """Reads its splits one after another. Positions are those of `FileRows`."""

    def __init__(
        self,
        format: str,
        schema: pa.Schema,
        bad_row: Callable[[BadRow], None],
        options: StorageOptions,
        *,
        header: bool = True,
        parse: LineParser | None = None,
        partitions_below: int | None = None,
    ) -> None:
        self._format = format
        self._header = header
        self._parse = parse
        self._partitions_below = partitions_below
        self._values: Mapping[str, str | None] = {}
        self._options = options
        self._schema = schema
        self._bad_row = bad_row
        self._has_failed = False
        self._splits: list[tuple[Split, Position]] = []
        self._open: FileRows | None = None

    def add_split(self, split: Split, position: Position) -> None:
        if not (isinstance(split, dict) and {"path", "groups"} <= split.keys()):
            raise RestoreError(f"{split!r} is not a split of Files; was the snapshot taken with another source?")
        self._splits.append((split, position))
        if self._open is None:
            # A restore may bring splits of several subtasks: later files must not make rows of earlier ones late.
            self._splits.sort(key=_place)

    def read(self) -> pa.RecordBatch | Wait | None:
        while self._splits:
            split, position = self._splits[0]
            try:
                if self._open is None:
                    self._open = self._opened(split, position)
                given = self._open.read()
                if self._values and isinstance(given, pa.RecordBatch):
                    given = with_values(given, self._values, self._schema)
            except UserCodeError as error:
                if self._has_failed:
                    raise
                self._report(BadRow(error, None, split["path"]))
                given = None
            if given is not None:
                return given
            self.close()
            self._splits.pop(0)
        return None

    def _opened(self, split: Split, position: Position) -> FileRows:
        path, schema = split["path"], self._schema
        if self._partitions_below is not None:
            known = values_in(path[self._partitions_below :])
            self._values = {name: value for name, value in known.items() if name in schema.names}
            schema = pa.schema([field for field in schema if field.name not in self._values])
        return open_rows(
            path,
            self._format,
            schema,
            split["groups"],
            position,
            self._report,
            self._options,
            header=self._header,
            parse=self._parse,
            fills_missing=self._partitions_below is not None,
        )

    def _report(self, bad: BadRow) -> None:
        # What this raises must not be taken for another bad row.
        self._has_failed = True
        self._bad_row(bad)
        self._has_failed = False

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        if self._open is None:
            return list(self._splits)
        return [(self._splits[0][0], self._open.position), *self._splits[1:]]

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _place(entry: tuple[Split, Position]) -> tuple[str, int]:
    split, _ = entry
    return split["path"], (split["groups"] or [0])[0]


def _whole(path: str) -> Split:
    return {"path": path, "groups": None}
