"""The file of a job's history: its last view as JSON, compressed with gzip, which also checks it. `zcat` shows it.

Every version from 1 on stays readable. What a reader does not know is ignored, and what it misses has its default, so
only a change of meaning needs a new version.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec import Raw, Struct

from snapline.config import Checkpoints, Execution, Monitoring
from snapline.errors import DamagedError, SnaplineError
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, StatisticsSnapshot, SubtaskStatistics
from snapline.protocol.statistics.job_past import JobPast
from snapline.protocol.statistics.job_view import JobView
from snapline.protocol.statistics.packed_subtasks import PackedSubtasks
from snapline.storage.plain_settings import plain_restart, plain_settings, restart_of_plain, settings_of_plain

FORMAT = "snapline-history"
FORMAT_VERSION = 1

MAX_HISTORY_BYTES = 256 << 20
"""A history that is larger when unpacked is damaged, or not one."""

_LEVEL = 1
_GZIP = 31


class NewerHistoryError(SnaplineError):
    """A newer Snapline has written it: this one cannot read it, and must not delete it."""


class _Preamble(Struct):
    format: str
    version: int


class _Stored(Struct):
    """`view` has the fields of `JobView` by name, with its settings as plain data."""

    format: str
    version: int
    totals: dict[str, int]
    absorbed: list[str]
    view: dict[str, Raw]


_decoder = msgspec.json.Decoder(_Stored)
_preamble_decoder = msgspec.json.Decoder(_Preamble)
_plain_decoder = msgspec.json.Decoder(dict[str, Any])


def _plain(value: Any) -> Any:
    if isinstance(value, PackedSubtasks):
        return list(value)
    raise TypeError(f"a {type(value).__name__} cannot be stored")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(past: JobPast) -> bytes:
    """Returns the content of the file. It holds no secret: of those in settings only the references."""
    view = past.view
    values: dict[str, Any] = {item.name: getattr(view, item.name) for item in fields(JobView)}
    for name in ("checkpoints", "execution", "monitoring"):
        values[name] = plain_settings(values[name])
    values["restart"] = plain_restart(view.restart)
    raw = {name: Raw(_encoder.encode(value)) for name, value in values.items()}
    stored = _Stored(FORMAT, FORMAT_VERSION, dict(past.totals), list(past.absorbed), raw)
    return gzip.compress(_encoder.encode(stored), _LEVEL, mtime=0)


def decode(data: bytes, path: str) -> JobPast:
    """Raises `DamagedError`, or `NewerHistoryError` if a newer version has written it."""
    try:
        text = _unpacked(data)
        preamble = _preamble_decoder.decode(text)
        if preamble.format != FORMAT:
            raise ValueError("it is something else")
        if preamble.version > FORMAT_VERSION:
            raise NewerHistoryError(
                f"the history {path} has format {preamble.version}, and this Snapline reads {FORMAT_VERSION}"
            )
        stored = _decoder.decode(text)
        return JobPast(_view(stored.view), stored.totals, tuple(stored.absorbed))
    except (msgspec.MsgspecError, zlib.error, ValueError) as error:
        raise DamagedError(f"the history {path} is damaged: {error}") from error


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    text = unpacker.decompress(data, MAX_HISTORY_BYTES)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or larger than {MAX_HISTORY_BYTES} bytes")
    return text


def _view(stored: dict[str, Raw]) -> JobView:
    settings = {
        "checkpoints": settings_of_plain(Checkpoints(), _plain_of(stored, "checkpoints")),
        "execution": settings_of_plain(Execution(), _plain_of(stored, "execution")),
        "monitoring": settings_of_plain(Monitoring(), _plain_of(stored, "monitoring")),
        "restart": restart_of_plain(_plain_of(stored, "restart")),
    }
    decoders = _decoders()
    if missing := sorted(_required() - stored.keys() - settings.keys()):
        raise ValueError(f"it lacks {missing[0]}")
    values = {name: decoders[name].decode(raw) for name, raw in stored.items() if name in decoders}
    view = JobView(**{**values, **settings})
    return replace(view, statistics=_packed(view.statistics), is_live=False)


def _plain_of(stored: dict[str, Raw], name: str) -> dict[str, Any]:
    return _plain_decoder.decode(stored[name]) if name in stored else {}


@cache
def _decoders() -> dict[str, msgspec.json.Decoder[Any]]:
    """For each field of a view but its settings."""
    hints = get_type_hints(JobView)
    plain = ("checkpoints", "execution", "monitoring", "restart")
    return {item.name: msgspec.json.Decoder(hints[item.name]) for item in fields(JobView) if item.name not in plain}


@cache
def _required() -> frozenset[str]:
    return frozenset(
        item.name for item in fields(JobView) if item.default is MISSING and item.default_factory is MISSING
    )


def _packed(statistics: StatisticsSnapshot) -> StatisticsSnapshot:
    """The same with subtasks that take little memory and cannot be changed."""
    latest = statistics.latest
    return replace(
        statistics,
        history=tuple(map(_packed_record, statistics.history)),
        latest=replace(
            latest,
            completed=latest.completed and _packed_record(latest.completed),
            savepoint=latest.savepoint and _packed_record(latest.savepoint),
            failed=latest.failed and _packed_record(latest.failed),
        ),
    )


def _packed_record(record: CheckpointRecord) -> CheckpointRecord:
    def packed(subtasks: Any) -> PackedSubtasks | tuple[SubtaskStatistics, ...]:
        return PackedSubtasks(subtasks) if subtasks else ()

    vertices = (replace(vertex, subtasks=packed(vertex.subtasks)) for vertex in record.vertices)
    return replace(record, vertices=tuple(vertices))
