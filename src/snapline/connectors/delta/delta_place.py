"""Where a Delta table is, how it is reached, and what errors of the library mean."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from snapline.config import Path as AnyPath
from snapline.config import StorageOptions, StorageOptionsLike
from snapline.config.secret import without_secrets
from snapline.config.storage_options import credential_values, resolved
from snapline.connectors.files.file_listing import stored_objects
from snapline.errors import ConfigurationError, SnaplineError, TransientError
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.object_paths import directory_location

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG = "_delta_log"
STAGED = "_snapline"
"""Directory in the table for files that a merge reads. Readers and `vacuum` skip names with an underscore."""

_S3_NAMES = {
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
    "endpoint_url": "aws_endpoint_url",
}
_S3_LIMITS = {"connect_timeout": "5s", "timeout": "30s", "max_retries": "4", "retry_timeout": "30s"}
"""The library's own limits would let a call to a server that is away wait for minutes."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_REFUSED = re.compile(r"denied|forbidden|InvalidAccessKey|SignatureDoesNotMatch|ExpiredToken|\b40[13]\b", re.IGNORECASE)
_MAX_TEXT = 500


def load_deltalake() -> Any:
    """The package `deltalake`; `ConfigurationError` if it is not installed."""
    try:
        import deltalake
    except ImportError as error:
        raise ConfigurationError(
            "Delta tables need the package deltalake; run pip install 'snapline[delta]' here and on all executors"
        ) from error
    return deltalake


class DeltaPlace:
    """The directory of a table, with the options of its storage. It travels with the job."""

    def __init__(self, path: AnyPath, options: StorageOptionsLike | None) -> None:
        text = os.fspath(path)
        if not isinstance(text, str) or not text.strip():
            raise ConfigurationError(f"Delta({path!r}): not a path; give the directory of the table")
        self.is_local = "://" not in text
        # Executors have another working directory.
        self.path = os.path.abspath(text) if self.is_local else text.rstrip("/")
        directory_location(self.path)
        self.options = StorageOptions.of(options)
        load_deltalake()

    def __str__(self) -> str:
        return self.path

    @property
    def objects(self) -> FileObjects:
        """The files of the table."""
        return stored_objects(self.options)

    def full(self, name: str) -> str:
        """The path of a file that the table's log names by `name`."""
        return f"{self.path}/{name}"

    def open(self, version: int | None = None) -> DeltaTable:
        """The newest state of the table, or an older one. Raises what `explained` raises."""
        deltalake = load_deltalake()
        with self.explained("cannot be read"):
            try:
                table: DeltaTable = deltalake.DeltaTable(
                    self.path, version=version, storage_options=self.library_options()
                )
            except deltalake.exceptions.TableNotFoundError:
                raise self.missing() from None
        return table

    def find(self) -> DeltaTable | None:
        """The newest state of the table, or None if there is no table."""
        try:
            return self.open()
        except MissingTableError:
            return None

    def missing(self) -> MissingTableError:
        return MissingTableError(
            f"Delta({self.path!r}): there is no Delta table; check the path and that its {LOG} directory is there"
        )

    def library_options(self) -> dict[str, str] | None:
        """The options in the library's names, with secrets as they are now. Keep them out of messages."""
        scheme = self.path.partition("://")[0] if not self.is_local else "file"
        given: Mapping[str, Any] = resolved(self.options.schemes.get(scheme.lower(), {}))
        if scheme.lower() != "s3":
            return {name: str(value) for name, value in given.items() if isinstance(value, str | int)} or None
        found = dict(_S3_LIMITS)
        for name, value in given.items():
            if name == "client_kwargs" and isinstance(value, Mapping):
                if "region_name" in value:
                    found["aws_region"] = str(value["region_name"])
            elif isinstance(value, str | int) and name != "profile":
                found[_S3_NAMES.get(name, name)] = str(value)
        if found.get("aws_endpoint_url", "").startswith("http://"):
            found["aws_allow_http"] = "true"
        return found

    def text(self, error: BaseException) -> str:
        """What an error says, on one line, without secrets."""
        said = " ".join(_COLOUR.sub("", str(error)).replace("↳", "-").split()) or type(error).__name__
        scheme = self.path.partition("://")[0]
        secrets = tuple(credential_values(resolved(self.options.schemes.get(scheme, {}))))
        return without_secrets(said if len(said) <= _MAX_TEXT else f"{said[:_MAX_TEXT]}...", secrets)

    @contextmanager
    def explained(self, what: str) -> Iterator[None]:
        """Turns errors of the library and of the system into `TransientError`s that name the table."""
        try:
            yield
        except SnaplineError:
            raise
        except Exception as error:
            if not is_of_storage(error):
                raise
            raise self.failed(what, error) from error

    def failed(self, what: str, error: BaseException) -> TransientError:
        said = self.text(error)
        if isinstance(error, PermissionError) or _REFUSED.search(said):
            advice = "give the job the right to read and write there, or renew its credentials"
        elif getattr(error, "errno", None) == 28:
            advice = "make space there; the job goes on by itself"
        else:
            advice = "check the storage; the job tries again"
        return TransientError(f"the Delta table {self.path!r} {what}: {said}; {advice}")


class MissingTableError(ConfigurationError):
    """There is no table at the place."""


def is_of_storage(error: BaseException) -> bool:
    """Whether the library or the system raised it, rather than our own code."""
    library: type[BaseException] = load_deltalake().exceptions.DeltaError
    return isinstance(error, OSError | library)
