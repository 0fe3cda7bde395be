"""Settings from Spark's configuration: `spark.snapline.*` overrides the settings of the job.

`spark.snapline.checkpoints.<name>`, `spark.snapline.execution.<name>` and `spark.snapline.monitoring.<name>` are
keywords of `Checkpoints`, `Execution` and `Monitoring`;
`spark.snapline.restart.strategy` is none, fixed_delay, failure_rate or exponential_delay, and any other
`spark.snapline.restart.<name>` is a keyword of that strategy; `spark.snapline.id`, `.parallelism` and
`.max_parallelism` are those of the job; `spark.snapline.s3.<name>` are keywords of `S3`, for the storage of
checkpoints. The value `none` means None. A credential is a reference, `env:NAME` or `file:PATH`, since Spark shows its
configuration to everybody.
"""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, TypeVar

from snapline.api.job import Job
from snapline.config import (
    S3,
    Checkpoints,
    Execution,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    Monitoring,
    NoRestart,
    default_restart,
)
from snapline.config.storage_options import s3_of_texts, secret_of_text
from snapline.errors import ConfigurationError
from snapline.storage.storage_factory import check_job_id

PREFIX = "spark.snapline."

_STRATEGIES: dict[str, type[Any]] = {
    "none": NoRestart,
    "fixed_delay": FixedDelay,
    "failure_rate": FailureRate,
    "exponential_delay": ExponentialDelay,
}
_OBJECTS = frozenset({"storage_options"})
"""Keywords that cannot be given as one text."""

_JOB = {"id": "str | None", "parallelism": "int", "max_parallelism": "int | None"}

S = TypeVar("S")


def configured(job: Job, settings: Mapping[str, str]) -> Job:
    """Returns a copy of the job with these settings, or the job if there are none. Raises `ConfigurationError`."""
    ours = {name.removeprefix(PREFIX): text for name, text in settings.items() if name.startswith(PREFIX)}
    if not ours:
        return job
    changed = copy.copy(job)
    changed.checkpoints = _checkpoints(job.checkpoints, ours)
    changed.execution = replaced(job.execution, **_values(ours, "execution.", _keywords(Execution)))
    monitoring = _values(ours, "monitoring.", _keywords(Monitoring))
    changed.monitoring = replaced(job.monitoring or Monitoring(), **monitoring)
    if job.has_default_restart:
        changed.restart = default_restart(changed.checkpoints.is_periodic or changed.checkpoints.storage is not None)
    strategy = _strategy(changed, ours)
    _check_names(ours, strategy)
    values = _values(ours, "restart.", _keywords(strategy))
    is_same = type(changed.restart) is strategy
    changed.restart = replaced(changed.restart, **values) if is_same else strategy(**values)
    for name, value in _values(ours, "", _JOB).items():
        setattr(changed, name, value)
    if changed.id is not None:
        check_job_id(changed.id)
    return changed


def _checkpoints(before: Checkpoints, ours: Mapping[str, str]) -> Checkpoints:
    changes = _values(ours, "checkpoints.", _keywords(Checkpoints))
    s3 = {name.removeprefix("s3."): text.strip() for name, text in ours.items() if name.startswith("s3.")}
    if s3:
        try:
            changes["storage_options"] = before.storage_options.with_s3(s3_of_texts(s3))
        except ConfigurationError as error:
            raise ConfigurationError(f"{PREFIX}s3.*: {error}") from error
    return replaced(before, **changes)


def replaced(settings: S, **changes: object) -> S:
    """Returns a copy of a settings object, made by its constructor, with some keywords changed."""
    return type(settings)(**{**_given(settings), **changes})


def _given(settings: Any) -> dict[str, object]:
    """Returns the keywords that construct an equal object; attribute names are keywords plus a unit."""
    keywords: dict[str, object] = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name.endswith("_ms"):
            keywords[field.name.removesuffix("_ms")] = None if value is None else timedelta(milliseconds=value)
        else:
            keywords[field.name.removesuffix("_bytes")] = value
    return keywords


def _keywords(kind: type[Any]) -> dict[str, str]:
    """Returns the keywords of a settings class and their annotations."""
    if kind is NoRestart:
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {it.name: str(it.annotation) for it in parameters if it.name not in _OBJECTS}


def _strategy(job: Job, ours: Mapping[str, str]) -> type[Any]:
    name = ours.get("restart.strategy")
    if name is None:
        return type(job.restart)
    kind = _STRATEGIES.get(name.strip().lower().replace("-", "_"))
    if kind is None:
        raise ConfigurationError(f"{PREFIX}restart.strategy={name!r}: unknown; use one of {', '.join(_STRATEGIES)}")
    return kind


def _check_names(ours: Mapping[str, str], strategy: type[Any]) -> None:
    known = {
        *_JOB,
        *(f"s3.{name}" for name in _keywords(S3)),
        *(f"checkpoints.{name}" for name in _keywords(Checkpoints)),
        *(f"execution.{name}" for name in _keywords(Execution)),
        *(f"monitoring.{name}" for name in _keywords(Monitoring)),
        *(f"restart.{name}" for name in _keywords(strategy)),
        "restart.strategy",
    }
    for name in ours:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, cutoff=0.0)[0]
            hint = f" of the strategy {strategy.__name__}" if name.startswith("restart.") else ""
            raise ConfigurationError(f"{PREFIX}{name}: unknown setting{hint}; did you mean {PREFIX}{near}?")


def _values(ours: Mapping[str, str], group: str, keywords: Mapping[str, str]) -> dict[str, object]:
    return {
        name: _value(f"{PREFIX}{group}{name}", ours[group + name].strip(), annotation)
        for name, annotation in keywords.items()
        if group + name in ours
    }


def _value(name: str, text: str, annotation: str) -> object:
    kinds = {kind.strip() for kind in annotation.split("|")}
    if "None" in kinds and text.lower() == "none":
        return None
    if "SecretLike" in kinds:
        return secret_of_text(text, name)
    if "bool" in kinds:
        if text.lower() not in ("true", "false"):
            raise ConfigurationError(f"{name}={text!r}: neither true nor false; use one of them")
        return text.lower() == "true"
    for kind, convert, example in (("int", int, "a whole number"), ("float", float, "a number")):
        if kind in kinds:
            try:
                return convert(text)
            except ValueError:
                raise ConfigurationError(f"{name}={text!r}: not a number; use {example}") from None
    return text
