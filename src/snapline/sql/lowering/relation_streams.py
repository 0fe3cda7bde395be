"""Sources of a query as sources of a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.api.stream import Stream
from snapline.connectors import sources
from snapline.connectors.formats.raw_format import Raw
from snapline.contracts.source import Source, Watermarks
from snapline.operators.projection import Project
from snapline.sql.expressions.file_lines import FileLines
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.lowering.lowered_stream import Context, Lowered, stream_schema
from snapline.sql.plans.fingerprints import column_names
from snapline.sql.plans.python_functions import PythonFunction
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Attribute, Plan

VIEW_FORMAT: Final = "snapline_view"
"""The name of the data source that stands for a stream of a job; its option `view` says which."""

_RATE = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("value", pa.int64())])
_FILE_FORMATS: Final = frozenset({"parquet", "json", "csv", "text", "orc"})
_WATCH = "1s"
_OTHER_NAMES: Final[Mapping[str, str]] = {"value": "line"}
"""Columns that Spark's sources name otherwise than ours: a line from a socket."""

_KNOWN: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "csv": {
        "header": ("true", "false"),
        "quote": ('"',),
        "escape": ("\\",),
        "enforceschema": ("true",),
        "multiline": ("false",),
        "encoding": ("utf-8",),
    },
    "json": {"multiline": ("false",), "encoding": ("utf-8",)},
    "text": {"wholetext": ("false",)},
}
"""Options of files by format, with the values that have a counterpart."""

_PARSED: Final[Mapping[str, frozenset[str]]] = {
    "json": frozenset(
        {"mode", "columnnameofcorruptrecord", "timezone", "dateformat", "timestampformat", "timestampntzformat"}
    ),
    "csv": frozenset({"mode", "columnnameofcorruptrecord", "timezone", "sep", "delimiter"}),
}
"""Options of lines of text, by format, with any value."""

_STEPS: Final[Mapping[str, str]] = {
    "maxfilespertrigger": "files_per_checkpoint",
    "maxbytespertrigger": "bytes_per_checkpoint",
}
"""Options of files that say how much a micro-batch reads."""

_PLACES: Final = frozenset({"path", "pathglobfilter", "recursivefilelookup", "latestfirst", *_STEPS})
"""Options that say which files are read, and when."""

_IGNORED: Final = frozenset({*_PLACES, "inferschema", "samplingratio", "mergeschema"})
"""These, and those that need nothing here: a query has a schema, so files are not asked for theirs."""


def lowered_relation(plan: Plan, context: Context, watermarks: Watermarks | None = None) -> Lowered:
    """The stream of a source; `watermarks` are over the columns as the query names them."""
    if plan.kind == "StreamingRelationV2":
        name, options = plan.arguments["sourceName"], dict(plan.arguments["extraOptions"])
    else:
        given = plan.arguments["dataSource"]
        name, options = given["className"], {key.lower(): value for key, value in given["options"].items()}
        options.setdefault("path", ",".join(given["paths"]))
    if name == VIEW_FORMAT:
        return _of_stream(context.views[options["view"]], plan, watermarks, context)
    make = _SOURCES.get(name.lower()) or (_files if name.lower() in _FILE_FORMATS else None)
    if isinstance(plan.arguments.get("source"), PythonFunction):
        make = _python
    if name.lower() == "memory":
        raise refusal(
            plan,
            "the rows of a MemoryStream are in Spark's own JVM, for its own tests",
            "write the rows to files, use a Python data source, or job.source(sl.sources.Iterator(...)).as_view(...)",
        )
    if make is None:
        raise refusal(plan, f"there is no source for the format {name!r}", "use rate, socket, files, kafka or Python")
    source = make(plan, name.lower(), options, context)
    if context.is_bounded and not source.is_bounded:
        raise refusal(
            plan,
            "it never ends, so a query with trigger(availableNow=True) would not",
            "use trigger(processingTime=...)",
        )
    label = options.get("path", "").rstrip("/").rpartition("/")[2] or options.get("subscribe", "")
    uid = context.uids.uid("source", name, *([label] if label else []))
    if watermarks is not None and not context.steps and list(source.schema.names) == column_names(plan.output):
        return _of_stream(context.job.source(source, uid, watermarks=watermarks), plan, None, context)
    return _of_stream(context.job.source(source, uid), plan, watermarks, context)


def has_watermark(plan: Plan, context: Context) -> bool:
    """Whether a relation is a view of a stream with watermarks: those hold."""
    if plan.arguments.get("sourceName") != VIEW_FORMAT:
        return False
    return context.views[plan.arguments["extraOptions"]["view"]]._event_time is not None


def _of_stream(stream: Stream, plan: Plan, watermarks: Watermarks | None, context: Context) -> Lowered:
    """A stream with the columns, names and types that the relation has."""
    schema = stream_schema(plan.output, is_changing=False)
    columns = [_column(stream.schema, attribute, plan) for attribute in plan.output]
    is_copy = all(isinstance(column, str) for column in columns)
    if not is_copy or not columns == stream.schema.names == schema.names:
        project = Project("columns", columns, schema)
        stream = stream._then("columns", project, schema, None, None, copies=project.copies)
    if watermarks is not None:
        stream = context.with_watermarks(stream, watermarks)
    return Lowered(stream, plan.output)


def _column(schema: pa.Schema, wanted: Attribute, plan: Plan) -> str | pc.Expression:
    """The column of a source for one of the relation: as it is, cast to Spark's type, or what Spark has there."""
    name = next((each for each in (wanted.name, _OTHER_NAMES.get(wanted.name)) if each in schema.names), None)
    if name is None and wanted.name == "timestampType":
        return pc.scalar(pa.scalar(0, wanted.type))  # Kafka's: when the message was made
    if name is None:
        raise refusal(plan, f"its source has no column {wanted.name!r}", f"it has {', '.join(schema.names)}")
    return name if schema.field(name).type == wanted.type else pc.field(name).cast(wanted.type)


def _rate(plan: Plan, name: str, options: Mapping[str, str], context: Context) -> Source:
    rows = float(options.get("rowspersecond", 1))
    splits = int(options["numpartitions"]) if "numpartitions" in options else None
    return sources.Generate(_rate_rows, schema=_RATE, rows_per_second=rows, splits=splits)


def _rate_rows(start: int, count: int) -> pa.RecordBatch:
    now_us = time.time_ns() // 1000
    times = np.full(count, now_us, dtype=np.int64)
    arrays = [pa.array(times).view(_RATE.field(0).type), pa.array(np.arange(start, start + count))]
    return pa.RecordBatch.from_arrays(arrays, schema=_RATE)


def _rate_batches(plan: Plan, name: str, options: Mapping[str, str], context: Context) -> Source:
    rows = int(options.get("rowsperbatch", 0))
    if rows <= 0:
        raise refusal(plan, "rowsPerBatch is missing", "give option('rowsPerBatch', n)")
    start_ms, step_ms = int(options.get("starttimestamp", 0)), int(options.get("advancemillisperbatch", 1000))
    function = partial(_rate_batch_rows, rows, start_ms, step_ms)
    return sources.Generate(function, schema=_RATE, rows_per_second=float(rows))


def _rate_batch_rows(rows: int, start_ms: int, step_ms: int, start: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(start, start + count)
    times = (start_ms + numbers // rows * step_ms) * 1000
    return pa.RecordBatch.from_arrays([pa.array(times).view(_RATE.field(0).type), pa.array(numbers)], schema=_RATE)


def _socket(plan: Plan, name: str, options: Mapping[str, str], context: Context) -> Source:
    return sources.Socket(options["host"], int(options["port"]), remote=True)


def _files(plan: Plan, name: str, options: Mapping[str, str], context: Context) -> Source:
    fields = [pa.field(each.name, each.type, each.nullable) for each in plan.output]
    has_header = options.get("header", "").lower() == "true"
    known, of_lines = _KNOWN.get(name, {}), _PARSED.get(name, frozenset())
    unknown = [
        key
        for key, value in options.items()
        if key not in _IGNORED and key not in of_lines and value.lower() not in known.get(key, ())
    ]
    if unknown:
        what = f"the option {unknown[0]!r} of {name} files, {options[unknown[0]]!r},"
        raise refusal(plan, f"{what} has no counterpart here", "leave it out, or convert the files to Parquet")
    limits: dict[str, Any] = {}
    if context.steps is not None:
        limits = {ours: _number(plan, key, options[key]) for key, ours in _STEPS.items() if key in options}
    if limits:
        limits["latest_first"] = options.get("latestfirst", "").lower() == "true"
    parse = None
    if name in _PARSED:
        zone = plan.arguments.get("timeZoneId", "UTC")
        parse = FileLines(name, {key: options[key] for key in options if key in of_lines}, zone)
        try:
            parse.check(pa.schema(fields))
        except UnsupportedError as error:
            raise refusal(plan, str(error), "leave it out, or convert the files to Parquet") from error
    is_recursive = options.get("recursivefilelookup", "").lower() == "true"
    source = sources.Files(
        _pattern(plan, options["path"], options.get("pathglobfilter")),
        format=name if parse is None else "text",
        schema=pa.schema(fields),
        watch=None if context.is_bounded else _WATCH,
        header=has_header or parse is None,
        parse=parse,
        partitions=not is_recursive,
        **limits,
    )
    if context.steps is not None and source.steps is not None:
        context.steps.append(source.steps)
    return source


def _pattern(plan: Plan, path: str, name: str | None) -> str:
    """The path of all files, or of those whose name matches."""
    if name is None:
        return path
    if "{" in name or "/" in name:
        raise refusal(plan, f"the option pathGlobFilter is {name!r}", "use *, ? and [abc] alone")
    return f"{path.rstrip('/')}/**/{name}"


def _number(plan: Plan, key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise refusal(plan, f"the option {key} is {text!r}", "give a whole number") from None


def _python(plan: Plan, name: str, options: Mapping[str, str], context: Context) -> Source:
    function: PythonFunction = plan.arguments["source"]
    fields = [pa.field(each.name, each.type, each.nullable) for each in plan.output]
    kind = cloudpickle.loads(function.command)
    return sources.DataSource(kind, dict(options), schema=pa.schema(fields), bounded=context.is_bounded or None)


def _kafka(plan: Plan, name: str, options: Mapping[str, str], context: Context) -> Source:
    start: Any = options.get("startingoffsets", "latest")
    if start not in ("earliest", "latest"):
        raise refusal(plan, f"startingOffsets={start!r}", "use 'earliest' or 'latest', or sl.sources.Kafka(start=...)")
    own = {key.removeprefix("kafka."): value for key, value in options.items() if key.startswith("kafka.")}
    bootstrap = own.pop("bootstrap.servers")
    metadata = {each: each for each in ("key", "topic", "partition", "offset", "timestamp")}
    chosen: dict[str, Any] = {"pattern": options["subscribepattern"]} if "subscribepattern" in options else {}
    if "subscribe" in options:
        chosen = {"topics": options["subscribe"].split(",")}
    return sources.Kafka(
        bootstrap,
        format=Raw(),
        start=start,
        metadata=metadata,
        config=own or None,
        bounded=context.is_bounded,
        **chosen,
    )


_Maker = Callable[[Plan, str, Mapping[str, str], Context], Source]

_SOURCES: Final[Mapping[str, _Maker]] = {
    "rate": _rate,
    "rate-micro-batch": _rate_batches,
    "socket": _socket,
    "textsocket": _socket,
    "kafka": _kafka,
}
