"""Lines of JSON and CSV files as rows, with Spark's meaning: values that cannot be read are null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.compiler import Program
from snapline.sql.plans.trees import Attribute, Expression

_FUNCTIONS: Final[Mapping[str, str]] = {"json": "JsonToStructs", "csv": "CsvToStructs"}
_LINE = Attribute(0, "line", pa.string())
_CORRUPT: Final = "columnnameofcorruptrecord"
_MALFORMED: Final = "__malformed"
_CONTENT = "[^\\x00- ]"
"""What a line must have: those without are left out."""


class FileLines:
    """Makes rows of lines as Spark's sources of files do, called as a `LineParser`. Pickled with the job.

    `format` is "json" or "csv", `options` are those of the source, by names in lower case, and `zone` is where times
    without a zone are. With the mode DROPMALFORMED lines that cannot be read as a whole are left out, with FAILFAST
    they raise `SparkError`. Raises `UnsupportedError` for options and, at the first line, for types that do not run.
    """

    def __init__(self, format: str, options: Mapping[str, str], zone: str) -> None:
        self._format = format
        self._drops = options.get("mode", "").upper() == "DROPMALFORMED"
        self._options = {**options, _CORRUPT: _MALFORMED} if self._drops else dict(options)
        self._zone = zone
        self._programs: dict[Any, Program] = {}

    def check(self, schema: pa.Schema) -> None:
        """Raises `UnsupportedError` if lines cannot be read with these columns."""
        self._program(self._type(schema))

    def __call__(self, lines: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        lines = lines.filter(pc.match_substring_regex(lines, _CONTENT))
        type = self._type(schema)
        is_list = pc.starts_with(pc.ascii_ltrim_whitespace(lines), "[") if self._format == "json" else None
        if is_list is None or not pc.any(is_list).as_py():
            structs = self._parsed(lines, type)
        else:
            # The objects of an array on one line are rows, too.
            lists = self._parsed(lines.filter(is_list), pa.list_(type))
            lists = pc.if_else(lists.is_valid(), lists, pa.scalar([{}], lists.type))
            structs = pa.concat_arrays([self._parsed(lines.filter(pc.invert(is_list)), type), lists.flatten()])
        arrays = structs.flatten()
        if self._drops:
            is_whole = arrays.pop().is_null()
            arrays = [array.filter(is_whole) for array in arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_programs": {}}

    def _type(self, schema: pa.Schema) -> pa.DataType:
        return pa.struct([*schema, pa.field(_MALFORMED, pa.string())] if self._drops else list(schema))

    def _parsed(self, lines: pa.Array, type: pa.DataType) -> pa.Array:
        (found,) = self._program(type).arrays(pa.RecordBatch.from_arrays([lines], names=[_LINE.name]))
        return found

    def _program(self, type: pa.DataType) -> Program:
        if type not in self._programs:
            line = Expression("AttributeReference", _LINE.type, (), {"id": _LINE.id, "name": _LINE.name}, True, "line")
            arguments = {"options": self._options, "timeZoneId": self._zone}
            text = f"{self._format} files"
            parse = Expression(_FUNCTIONS[self._format], type, (line,), arguments, True, text)
            self._programs[type] = Program([parse], [_LINE])
        return self._programs[type]
