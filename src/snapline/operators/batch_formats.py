"""The formats in which functions of batches take and return rows: Arrow, pandas, polars or Python objects."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from snapline.errors import ConfigurationError
from snapline.operators.row_batches import batch_of, rows_of
from snapline.text import shortened


class Format(ABC):
    """One format. It is pickled with the job; `open` is called first in every process."""

    kind: str
    """What a function takes, in words."""

    shows_schema = True
    """Whether a result shows its schema even without rows."""

    changes_width = False
    """Whether text, bytes and lists may come back with 64-bit offsets that the user did not choose."""

    package: str | None = None

    def open(self) -> None:
        """Import its package, if any. Raises `ConfigurationError` if that is not installed."""
        if self.package is not None:
            _load(self.package)

    @abstractmethod
    def given(self, batch: pa.RecordBatch) -> Any:
        """A batch as functions take it."""

    @abstractmethod
    def batch(self, made: Any, schema: pa.Schema | None, what: str) -> pa.RecordBatch | pa.Table | None:
        """A result as Arrow data, or None if it has another format. `schema` is the expected schema."""

    def batches(self, made: Any, schema: pa.Schema | None, what: str) -> Iterator[pa.RecordBatch]:
        """The batches of a result: none, one or several. Raises `TypeError` for anything else."""
        if made is None:
            return
        found = self.batch(made, schema, what)
        if isinstance(found, pa.Table):
            yield from found.to_batches() or [pa.RecordBatch.from_pylist([], schema=found.schema)]
        elif found is not None:
            yield found
        elif isinstance(made, Iterable) and not isinstance(made, str | bytes | dict):
            for item in made:
                yield from self.batches(item, schema, what)
        else:
            raise TypeError(f"it gave {shortened(made)}; it must return {self.kind}, None, or several of them")

    def mask(self, made: Any) -> Any:
        """The result of a filter function as an Arrow array, or as something `pyarrow.array` takes."""
        return made


class _Arrow(Format):
    kind = "a RecordBatch"

    def given(self, batch: pa.RecordBatch) -> Any:
        return batch

    def batch(self, made: Any, schema: pa.Schema | None, what: str) -> pa.RecordBatch | pa.Table | None:
        return made if isinstance(made, pa.RecordBatch | pa.Table) else None


class _Pandas(Format):
    """With Arrow dtypes, so that nulls, integers and times do not change."""

    kind = "a pandas.DataFrame"
    changes_width = True
    package = "pandas"

    def given(self, batch: pa.RecordBatch) -> Any:
        return batch.to_pandas(types_mapper=_load("pandas").ArrowDtype)

    def batch(self, made: Any, schema: pa.Schema | None, what: str) -> pa.RecordBatch | pa.Table | None:
        if not isinstance(made, _load("pandas").DataFrame):
            return None
        # A table: columns may have several chunks, or none.
        return pa.Table.from_pandas(made, preserve_index=False)

    def mask(self, made: Any) -> Any:
        return pa.array(made, from_pandas=True) if isinstance(made, _load("pandas").Series) else made


class _Polars(Format):
    kind = "a polars.DataFrame"
    changes_width = True
    package = "polars"

    def given(self, batch: pa.RecordBatch) -> Any:
        return _load("polars").from_arrow(batch)

    def batch(self, made: Any, schema: pa.Schema | None, what: str) -> pa.RecordBatch | pa.Table | None:
        return made.to_arrow() if isinstance(made, _load("polars").DataFrame) else None

    def mask(self, made: Any) -> Any:
        return made.to_arrow() if isinstance(made, _load("polars").Series) else made


class _Rows(Format):
    kind = "a list of dicts"
    shows_schema = False

    def given(self, batch: pa.RecordBatch) -> Any:
        return rows_of(batch)

    def batch(self, made: Any, schema: pa.Schema | None, what: str) -> pa.RecordBatch | pa.Table | None:
        if isinstance(made, str | bytes | dict) or not isinstance(made, Iterable):
            return None
        assert schema is not None, "rows do not show their schema"
        return batch_of(list(made), schema, what)


_FORMATS: dict[str, type[Format]] = {"arrow": _Arrow, "pandas": _Pandas, "polars": _Polars, "rows": _Rows}


def make_format(name: Any, call: str) -> Format:
    """The open format of this name; `call` is the method the user called, for messages."""
    if name not in _FORMATS:
        known = ", ".join(map(repr, _FORMATS))
        raise ConfigurationError(f"{call}: format={name!r}; use one of {known}")
    made = _FORMATS[name]()
    made.open()
    return made


def _load(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"format={package!r} needs the package {error.name!r}, which is not installed; install {package}, for "
            f"example with pip install snapline[{package}], also where the tasks run"
        ) from error
