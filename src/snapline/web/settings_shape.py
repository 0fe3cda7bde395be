"""The settings of a job as JSON, with credentials as their references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

from snapline.config import Secret, StorageOptions
from snapline.protocol.statistics.job_view import JobView
from snapline.web.own_types import Configuration


def configuration(view: JobView) -> Configuration:
    """What the job really runs with."""
    restart = {"strategy": type(view.restart).__name__, **_settings(view.restart)}
    return Configuration(_settings(view.checkpoints), _settings(view.execution), restart, _settings(view.monitoring))


def _settings(settings: Any) -> dict[str, Any]:
    return {item.name: _plain(getattr(settings, item.name), item.name) for item in fields(settings)}


def _plain(value: object, name: str = "") -> Any:
    if isinstance(value, Secret):
        return value.reference
    if isinstance(value, StorageOptions):
        return _plain(value.schemes)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    if name == "directory_mode" and isinstance(value, int):
        return f"{value:04o}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # An option for fsspec may be anything, such as a client, which might show a credential.
    return f"<{type(value).__name__}>"
