"""Log records that say which job, task and checkpoint they are about, and a formatter that shows it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

FIELDS = ("job", "job_id", "attempt", "vertex", "subtask", "checkpoint")
"""Attributes of a log record, where they apply."""

MAX_FIELD_CHARACTERS = 1000

Field = str | int | None

_nothing: Mapping[str, Field] = MappingProxyType({})
_here: ContextVar[Mapping[str, Field]] = ContextVar("snapline_log_fields", default=_nothing)


def set_log_fields(**fields: Field) -> None:
    """Add fields to what this thread logs from now on, and the threads and pools that it uses."""
    _here.set({**_here.get(), **fields})


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger of a module. Calls take fields by name: `_log.warning("...", attempt=3, checkpoint=7)`."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), {})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        named = {name: value for name in FIELDS if (value := kwargs.pop(name, None)) is not None}
        kwargs["extra"] = {**_here.get(), **named, **kwargs.get("extra", {})}
        return msg, kwargs


class JobLogFilter(logging.Filter):
    """Gives every record the fields `job`, `job_id`, `attempt`, `vertex`, `subtask` and `checkpoint`.

    Put it on a handler whose format names some of them, such as `"%(job)s %(vertex)s %(message)s"`: those that do not
    apply are empty. What operators, sources and sinks log themselves gets the fields of their task.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in log_fields(record).items():
            setattr(record, name, value)
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, "")
        return True


class JsonLogFormatter(logging.Formatter):
    """Formats a record as one JSON object on one line.

    ```python
    handler = logging.StreamHandler()
    handler.setFormatter(sl.JsonLogFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    ```

    It has `time` (UTC), `level`, `logger`, `message`, and where they apply `job`, `job_id`, `attempt`, `vertex`,
    `subtask`, `checkpoint` and `exception`. Operator processes write the same if the environment of the executors has
    `SNAPLINE_LOG_FORMAT=json`.
    """

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **log_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_fields(record: logging.LogRecord) -> dict[str, str | int]:
    """The fields of a record, from itself or else from the thread that logs it."""
    found: dict[str, str | int] = {}
    for name in FIELDS:
        value = getattr(record, name, None)
        if value in (None, ""):
            value = _here.get().get(name)
        if isinstance(value, int):
            found[name] = value
        elif value not in (None, ""):
            found[name] = str(value)[:MAX_FIELD_CHARACTERS]
    return found
