"""The command `snapline`."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import runpy
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from snapline.api.job_handle import JobFailedError
from snapline.config import S3
from snapline.config.storage_options import s3_of_texts
from snapline.errors import SnaplineError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import Snapshot
from snapline.state.inspection.job_directory import JobFacts, inspect_path
from snapline.state.inspection.json_values import JsonValue, json_rows
from snapline.state.inspection.snapshot_facts import OperatorFacts, SnapshotFacts, snapshot_facts
from snapline.state.inspection.state_rows import select_state, state_rows
from snapline.state.state_info import is_pickled
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.text import size_text, time_text

DEFAULT_LIMIT = 20
"""Rows of a state shown without `--limit`."""

BAD_INPUT = 2
_PIPE_WIDTH = 10_000

_DESCRIPTION = """\
Show the content of a checkpoint or savepoint, without its job.

PATH is the directory of a snapshot, its _metadata file, or the directory of a job. For a job it lists the checkpoints,
and the one to restore from. Local paths and URLs such as s3://bucket/jobs/7f3a/chk-12 work alike."""

_EXAMPLES = """\
examples:
  snapline inspect /data/checkpoints/7f3a
  snapline inspect /data/checkpoints/7f3a/chk-12
  snapline inspect s3://bucket/savepoints/savepoint-7f3a-01ab --state count/total --limit 100
  snapline inspect /data/checkpoints/7f3a/chk-12 --state count/total --key-group 17 --json
  snapline inspect s3://bucket/jobs/7f3a --s3 endpoint=http://minio:9000 --s3 key=env:KEY --s3 secret=file:secret.txt"""


_DEMO = """\
Show Snapline at work, on a Spark that the demo starts on this machine: clicks come in, a job counts them per user and
writes the results to files. The demo kills processes of the job with kill -9, shows how it recovers, and proves at the
end that no event was lost or counted twice. It takes about a minute, and needs Java 17 or newer."""


_RUN = """\
Run a program like `python SCRIPT ARG...`, and show the progress of every job that it starts, in one line on standard
error: rows per second, event time and the last checkpoint. job.run(spark, progress=True) shows the same for one job."""


class _UsageError(SnaplineError):
    """The command line is invalid."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status: 0, 1 for a job that failed, 2 for bad input, or that of the demo.

    An error is one line on standard error, for a job that failed with the traceback of its task.
    """
    status = 0
    try:
        options = _parser().parse_args(arguments)
        status = options.run(options)
        sys.stdout.flush()
    except JobFailedError as error:
        sys.stderr.write(f"snapline: {' '.join(str(error).split())}\n{error.trace}")
        return 1
    except SnaplineError as error:
        sys.stderr.write(f"snapline: {_printable(' '.join(str(error).split()))}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The interpreter flushes standard output again at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="snapline", description="Consistent checkpoints for Python pipelines that run on Spark.")
    parser.add_argument("--version", action="version", version=f"snapline {importlib.metadata.version('snapline')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    inspect = commands.add_parser(
        "inspect",
        help="show the content of a checkpoint or savepoint",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument("path", metavar="PATH", help="a snapshot, its _metadata, or the directory of a job")
    inspect.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    inspect.add_argument(
        "--s3",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="how to reach S3: endpoint, region, profile, and key, secret, token as env:NAME or file:PATH; repeatable",
    )
    state = inspect.add_argument_group("rows of a state")
    state.add_argument("--state", metavar="UID/NAME", help="show the rows of this state of this operator")
    state.add_argument(
        "--limit", metavar="N", type=_count, help=f"show at most N rows, 0 for all (default {DEFAULT_LIMIT})"
    )
    state.add_argument("--key-group", metavar="K", type=_count, help="only rows of this key group")
    state.add_argument("--subtask", metavar="I", type=_count, help="only rows written by this subtask")
    state.add_argument(
        "--unpickle",
        action="store_true",
        help="show pickled values themselves, not just their sizes. THIS RUNS CODE FROM THE FILE: use it only on "
        "snapshots you trust, where the job's modules can be imported",
    )
    inspect.set_defaults(run=_inspect)
    _add_demo(commands)
    run = commands.add_parser(
        "run",
        help="run a program and show the progress of its jobs",
        description=_RUN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("script", metavar="SCRIPT", help="a Python program that starts jobs")
    run.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER, help="arguments of the program")
    run.set_defaults(run=_run)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="watch a job survive kill -9 on this machine",
        description=_DEMO,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    demo.add_argument("--duration", metavar="TIME", help="how long clicks come in (default 40s)")
    demo.add_argument("--rows-per-second", metavar="N", type=_count, help="how many clicks (default 20000)")
    demo.add_argument("--parallelism", metavar="N", type=_count, help="how many slots (default 2)")
    demo.add_argument("--no-kill", dest="kill", action="store_false", help="kill nothing")
    demo.add_argument("--keep", metavar="DIR", help="keep output, checkpoints and logs in this new directory")
    demo.set_defaults(run=_demo)


def _run(options: argparse.Namespace) -> int:
    from snapline.api.live_line import show_always

    if not os.path.isfile(options.script):
        raise _UsageError(f"there is no file {options.script!r}; see snapline run --help")
    show_always()
    sys.argv = [options.script, *options.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    runpy.run_path(options.script, run_name="__main__")
    return 0


def _demo(options: argparse.Namespace) -> int:
    # Imported here because it loads far more than anything else.
    from snapline.demo.run import DemoOptions, run_demo

    names = ("duration", "rows_per_second", "parallelism", "kill", "keep")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return run_demo(DemoOptions(**given))


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def _inspect(options: argparse.Namespace) -> int:
    given = [name for name in ("limit", "key_group", "subtask") if getattr(options, name) is not None]
    if options.state is None and (given or options.unpickle):
        name = given[0].replace("_", "-") if given else "unpickle"
        raise _UsageError(f"--{name} needs --state UID/NAME; see snapline inspect --help")
    objects = FileObjects(options=_s3(options.s3))
    found = inspect_path(objects, _whole_path(options.path))
    if isinstance(found, Snapshot):
        reader = SnapshotReader(objects)
        if options.state is None:
            facts = snapshot_facts(found, reader)
            _print_json(_plain(facts)) if options.json else _print_snapshot(facts)
        else:
            shown = _rows(found, reader, options)
            _print_json(shown) if options.json else _print_rows(shown)
    elif options.state is not None:
        raise _UsageError(f"{found.location} is the directory of a job; name one of its checkpoints to see a state")
    else:
        _print_json(_plain(found)) if options.json else _print_job(found)
    return 0


def _s3(texts: Sequence[str]) -> S3 | None:
    given = [text.partition("=") for text in texts]
    if wrong := [name for name, equals, value in given if not (equals and value)]:
        raise _UsageError(f"--s3 {wrong[0]}: not NAME=VALUE; see snapline inspect --help")
    return s3_of_texts({name: value for name, _, value in given}) if given else None


def _whole_path(path: str) -> str:
    """The absolute path: paths inside a snapshot are derived from it."""
    if not path:
        raise _UsageError("PATH is empty; see snapline inspect --help")
    return path if "://" in path else os.path.abspath(path)


def _rows(snapshot: Snapshot, reader: SnapshotReader, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the rows of the selected state and a description of them."""
    operator, state = select_state(snapshot, reader, options.state)
    key_groups = None
    if options.key_group is not None:
        last = operator.max_parallelism - 1
        if options.key_group > last:
            raise _UsageError(f"operator {operator.uid!r} has no key group {options.key_group}, but 0 to {last}")
        key_groups = KeyGroupRange(options.key_group, options.key_group)
    limit = DEFAULT_LIMIT if options.limit is None else options.limit
    rows: list[dict[str, JsonValue]] = []
    kinds: dict[str, None] = {}
    columns: dict[str, str] = {}
    has_more = False
    for part in state_rows(operator, state, reader, key_groups=key_groups, subtask=options.subtask):
        kinds[part.info.kind.value] = None
        columns |= {field.name: str(field.type) for field in part.table.schema}
        room = limit - len(rows) if limit else part.table.num_rows
        pickled = frozenset(field.name for field in part.table.schema if is_pickled(part.info, field))
        shown = json_rows(part.table.slice(0, room), pickled, unpickle=options.unpickle)
        rows += ({"subtask": part.subtask, **row} for row in shown)
        if part.table.num_rows > room:
            has_more = True
            break
    return {
        "snapshot": snapshot.location,
        "uid": operator.uid,
        "state": state,
        "kind": ", ".join(kinds) or None,
        "columns": columns,
        "rows": rows,
        "has_more": has_more,
    }


# JSON.


def _print_json(document: object) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # The terminal cannot encode some letters, or a name is not valid text: escape them.
        text = json.dumps(document, indent=2, allow_nan=False)
    sys.stdout.write(f"{text}\n")


def _plain(value: Any) -> Any:
    """Facts as JSON values: times also in ISO 8601, columns and hooks by name."""
    if isinstance(value, KeyGroupRange):
        return [value.start, value.end]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    plain = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    for name in ("columns", "hooks"):
        if name in plain:
            plain[name] = dict(plain[name])
    if "timestamp_ms" in plain:
        plain["timestamp"] = _time(plain["timestamp_ms"])
    return plain


# Tables.


def _print_job(job: JobFacts) -> None:
    _say(f"Job directory {job.location}")
    rows = []
    for it in job.checkpoints:
        published = "?" if it.is_published is None else "yes" if it.is_published else "no"
        condition = it.condition.value if it.problem is None else f"{it.condition.value}: {it.problem}"
        rows.append((f"chk-{it.id}", _time(it.timestamp_ms) or "", size_text(it.size_bytes), condition, published))
    _print_table(("checkpoint", "taken at", "size", "condition", "published"), rows)
    if job.restore_from is None:
        _say(f"Nothing to restore from: {job.note}.")
    else:
        _say(f"Restore from {job.restore_from}: {job.note}.")


def _print_snapshot(facts: SnapshotFacts) -> None:
    kind = facts.kind.value.lower().replace("_", " ")
    form = "" if facts.format is None else f", {facts.format.value.lower()}"
    _say(f"{kind.capitalize()} {facts.id}{form}, taken at {_time(facts.timestamp_ms)} by attempt {facts.attempt}")
    _say(f"in {facts.location}")
    _say(
        f"{size_text(facts.size_bytes)} in {facts.files} files: {size_text(facts.shared_bytes)} of it outside the "
        f"directory, {size_text(facts.inline_bytes)} inside the metadata"
    )
    for operator in facts.operators:
        _print_operator(operator)
    if facts.hooks:
        hooks = [(name, size_text(size_bytes)) for name, size_bytes in facts.hooks]
        _print_table(("hook", "size"), hooks, title="Hooks")


def _print_operator(operator: OperatorFacts) -> None:
    finished = sum(it.finished for it in operator.subtasks)
    marks = [
        f"parallelism {operator.parallelism} of at most {operator.max_parallelism}",
        size_text(operator.size_bytes),
        "finished" if operator.fully_finished else f"{finished} subtasks finished" if finished else "",
        "" if operator.coordinator_bytes is None else f"coordinator {size_text(operator.coordinator_bytes)}",
    ]
    _say("")
    _say(f"Operator {operator.uid}: {', '.join(filter(None, marks))}")
    if operator.states:
        rows: list[Sequence[str]] = []
        for state in operator.states:
            columns = ", ".join(f"{name} {kind}" for name, kind in state.columns)
            columns += f" ({state.encoding.value})" if state.encoding.value != "arrow" else ""
            columns += f", kept for {state.ttl_ms} ms" if state.ttl_ms is not None else ""
            figures = f"{state.rows:,}", size_text(state.size_bytes), str(len(state.subtasks))
            rows.append((state.name, state.kind.value, columns, *figures))
        _print_table(("state", "kind", "columns", "rows", "size", "subtasks"), rows)
    if operator.subtasks:
        rows = []
        for it in operator.subtasks:
            groups = ", ".join(f"{part.start}-{part.end}" for part in it.key_groups)
            sizes = [size_text(size) for size in (it.keyed_bytes, it.operator_bytes, it.channel_bytes)]
            rows.append((str(it.index), groups, *sizes, "finished" if it.finished else "ended" if it.ended else ""))
        _print_table(("subtask", "key groups", "keyed", "operator", "in flight", ""), rows)
    if operator.native:
        states = dict.fromkeys(state for part in operator.native for state in part.states)
        _print_table(("state", "kind"), states)
        rows = []
        for part in operator.native:
            groups = f"{part.key_groups.start}-{part.key_groups.end}"
            for file in part.files:
                name, shared = file.path.rsplit("/", 1)[-1], "shared" if file.is_shared else ""
                rows.append((str(part.subtask), part.backend, groups, name, size_text(file.size_bytes), shared))
        _print_table(("subtask", "backend", "key groups", "file", "size", ""), rows)
    if operator.in_flight:
        edges = [(it.edge, it.side, str(it.channels), size_text(it.size_bytes)) for it in operator.in_flight]
        _print_table(("edge", "captured at", "channels", "size"), edges)


def _print_rows(shown: dict[str, Any]) -> None:
    _say(f"{shown['uid']}/{shown['state']}: {shown['kind'] or 'no rows'}")
    columns = ("subtask", *shown["columns"])
    rows = [[row.get(name) for name in columns] for row in shown["rows"]]
    _print_table(
        columns,
        ([cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) for cell in cells] for cells in rows),
    )
    if shown["has_more"]:
        _say(f"There are more rows than these {len(shown['rows'])}; --limit 0 shows all.")


def _console() -> Console:
    """As wide as the terminal; without cutting, wrapping or colors in a pipe."""
    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH, color_system=None)


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(_printable(column)), overflow="fold")
    for cells in rows:
        table.add_row(*(Text(_printable(cell)) for cell in cells))
    _console().print(table)


def _say(text: str) -> None:
    _console().print(Text(_printable(text)), soft_wrap=True)


def _printable(text: str) -> str:
    """The text with control and unencodable characters escaped: names and values come from files."""
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _time(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else time_text(timestamp_ms, "milliseconds")
