"""Paths and stores that commands name, without the job they belong to."""

from __future__ import annotations

import os
from collections.abc import Sequence

from snapline.cli.usage import UsageError
from snapline.config import S3
from snapline.config.storage_options import s3_of_texts
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.object_store import ObjectStore


def open_store(texts: Sequence[str]) -> ObjectStore:
    """The store of all paths; `texts` are the values of `--s3`."""
    return FileObjects(options=s3_options(texts))


def whole_path(path: str) -> str:
    """The absolute path: paths inside a snapshot are derived from it."""
    if not path:
        raise UsageError("PATH is empty; name a directory")
    return path if "://" in path else os.path.abspath(path)


def s3_options(texts: Sequence[str]) -> S3 | None:
    """What the values of `--s3` say, None without any."""
    given = [text.partition("=") for text in texts]
    if wrong := [name for name, equals, value in given if not (equals and value)]:
        raise UsageError(f"--s3 {wrong[0]}: not NAME=VALUE, such as endpoint=http://minio:9000")
    return s3_of_texts({name: value for name, _, value in given}) if given else None
