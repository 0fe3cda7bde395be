"""How to talk to a database through its Python driver: markers of parameters, errors, and rows by the thousand."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from snapline.errors import ConfigurationError, SnaplineError, TransientError, UserCodeError
from snapline.text import error_text

PARAMETER_STYLES = ("qmark", "format", "pyformat", "numeric", "named")
_ROWS_PER_CALL = 10_000
_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_$]*|"[^"?%]+"|`[^`?%]+`|\[[^\]?%]+\]')


class DatabaseDriver:
    """A user's function that connects, and what is known of the module behind it. Can be pickled."""

    def __init__(self, call: str, connect: Callable[[], Any], parameter_style: str | None) -> None:
        if not callable(connect):
            raise ConfigurationError(f"{call}: connect={connect!r} is no function that returns a connection")
        if parameter_style is not None and parameter_style not in PARAMETER_STYLES:
            raise ConfigurationError(
                f"{call}: parameter_style={parameter_style!r}; use one of {', '.join(map(repr, PARAMETER_STYLES))}"
            )
        self.call = call
        self._connect = connect
        self._style = parameter_style

    def connect(self) -> Any:
        """A new connection, which is not in autocommit mode if the driver lets us say so."""
        try:
            connection = self._connect()
        except SnaplineError:
            raise
        except Exception as error:
            raise TransientError(
                f"{self.call}: connect() failed ({error_text(error)}): is the database there, and is the login right?"
            ) from error
        if not all(hasattr(connection, name) for name in ("cursor", "commit", "rollback", "close")):
            raise ConfigurationError(
                f"{self.call}: connect() returned a {type(connection).__name__}; it must return a DB-API connection"
            )
        if getattr(connection, "autocommit", False) is True:
            raise ConfigurationError(
                f"{self.call}: the connection is in autocommit mode; let connect() return one that is not"
            )
        if getattr(connection, "isolation_level", "") is None and type(connection).__module__.startswith("sqlite3"):
            raise ConfigurationError(
                f"{self.call}: the connection is in autocommit mode; leave out isolation_level=None"
            )
        return connection

    def markers(self, connection: Any) -> Callable[[int], Sequence[str]]:
        """Makes the given number of parameter markers."""
        style = self._style or _attribute(connection, "paramstyle")
        if style is None:
            raise ConfigurationError(
                f"{self.call}: the driver of {type(connection).__module__} does not say how parameters are written; "
                f"give parameter_style=, one of {', '.join(map(repr, PARAMETER_STYLES))}"
            )
        if style == "qmark":
            return lambda count: ["?"] * count
        if style in ("format", "pyformat"):
            return lambda count: ["%s"] * count
        # Drivers with names take a sequence by position, too.
        return lambda count: [f":{number + 1}" for number in range(count)]

    def is_integrity_error(self, connection: Any, error: Exception) -> bool:
        """Whether the error says that a key is there already."""
        kind = _attribute(connection, "IntegrityError")
        return isinstance(kind, type) and isinstance(error, kind)

    def explained(self, connection: Any, error: Exception, doing: str) -> SnaplineError:
        """Our error for one of the driver's: `TransientError` for what it calls operational."""
        if isinstance(error, SnaplineError):
            return error
        what = f"{self.call}: {doing} failed: {error_text(error)}"
        operational = [_attribute(connection, name) for name in ("OperationalError", "InterfaceError")]
        kinds = tuple(kind for kind in operational if isinstance(kind, type))
        if isinstance(error, (*kinds, OSError)):
            return TransientError(what)
        return UserCodeError(f"{what}; look at the table, the rows and the settings of the connection")


def insert(connection: Any, table: str, batches: Sequence[pa.RecordBatch], markers: Callable[[int], Any]) -> None:
    """Write rows, in the connection's transaction: by `adbc_ingest` where there is one, else by `executemany`."""
    cursor = connection.cursor()
    try:
        if hasattr(cursor, "adbc_ingest"):
            parts = [part.strip('"`[]') for part in table.split(".")]
            place = {"db_schema_name": parts[0]} if len(parts) == 2 else {}
            cursor.adbc_ingest(parts[-1], pa.Table.from_batches(batches), mode="append", **place)
            return
        names = batches[0].schema.names
        marks = ", ".join(markers(len(names)))
        statement = f"INSERT INTO {table} ({', '.join(map(column_name, names))}) VALUES ({marks})"
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS_PER_CALL):
                columns = [_values(column) for column in batch.slice(start, _ROWS_PER_CALL).columns]
                cursor.executemany(statement, list(zip(*columns, strict=True)))
    finally:
        cursor.close()


def check_types(call: str, schema: pa.Schema) -> None:
    """Raises `ConfigurationError` for columns that are no parameters of statements."""
    for field in schema:
        if pt.is_nested(field.type):
            raise ConfigurationError(
                f"{call}: the column {field.name!r} is nested, {field.type}; make text or plain columns of it before"
            )


def table_name(call: str, name: str) -> str:
    """The name as it is; `ConfigurationError` unless it is one, with or without a schema, plain or quoted."""
    parts = name.split(".") if isinstance(name, str) else []
    if not 1 <= len(parts) <= 3 or not all(map(_NAME.fullmatch, parts)):
        raise ConfigurationError(
            f"{call}: {name!r} is not the name of a table; quote it as your database does if it is an unusual one"
        )
    return name


def column_name(name: str) -> str:
    """Plain names stay as they are, so that the database folds their letters as it does everywhere."""
    doubled = name.replace('"', '""')
    return name if _NAME.fullmatch(name) else f'"{doubled}"'


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pt.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return values


def _attribute(connection: Any, name: str) -> Any:
    """Of the connection, which may have the module's names too, or of the modules it comes from."""
    if (found := getattr(connection, name, None)) is not None:
        return found
    for kind in type(connection).__mro__:
        package = kind.__module__
        while package:
            # A function of C may have been unpickled without the package that it belongs to.
            with contextlib.suppress(ImportError):
                if (found := getattr(importlib.import_module(package), name, None)) is not None:
                    return found
            package = package.rpartition(".")[0]
    return None
