"""`to_json`: JSON texts of structs, maps and arrays, made column by column."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.datetime_functions import check_pattern, pattern_texts
from snapline.sql.expressions.datetime_text import date_texts, local_texts
from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.interval_casts import refuse_intervals
from snapline.sql.expressions.json_documents import Json, Number, members
from snapline.sql.expressions.number_text import double_text, number_texts
from snapline.sql.expressions.registry import Kernel, UnsupportedError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.expressions.values import numbers, valid
from snapline.sql.expressions.zone_offsets import Zone, zone
from snapline.sql.plans.trees import Expression

_KNOWN_OPTIONS: Final = frozenset(
    {"ignorenullfields", "timezone", "dateformat", "timestampformat", "timestampntzformat"}
)
_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_LARGE = re.compile("[\U00010000-\U0010ffff]")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """The text as a JSON string, with the escapes that Jackson writes."""
    return '"' + _SPECIAL.sub(lambda found: _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}", text) + '"'


def json_text(value: Json) -> str:
    """A value that was read from JSON, without blanks, its fractions as doubles, characters beyond 16 bits escaped."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Number):
        return _number_text(value)
    if isinstance(value, str):
        return _LARGE.sub(lambda found: "".join(f"\\u{unit:04X}" for unit in _units(found[0])), quoted(value))
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return "{" + ",".join(f"{json_text(name)}:{json_text(item)}" for name, item in members(value)) + "}"


def _units(char: str) -> tuple[int, int]:
    offset = ord(char) - 0x10000
    return 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF)


def _number_text(value: Number) -> str:
    if value.is_integer:
        return "0" if value == "-0" else str(value)
    text = double_text(float(value.replace("INF", "inf").replace("infinity", "inf")))
    return text if text[-1] not in "Ny" else f'"{text}"'


@kernel("StructsToJson")
def _to_json(expression: Expression) -> Kernel:
    options = {str(key).lower(): value for key, value in expression.arguments.get("options", {}).items()}
    if unknown := set(options) - _KNOWN_OPTIONS:
        raise UnsupportedError(f"the options {sorted(unknown)} of to_json are not supported: {expression.text}")
    skips_nulls = str(options.get("ignorenullfields", "true")).lower() == "true"
    time_zone = options.get("timezone") or expression.arguments.get("timeZoneId") or "UTC"
    check_patterns(options)
    writer = _Writer(skips_nulls, time_zone, options)
    refuse_intervals(expression.children[0], "to_json")
    writer.check(expression.children[0].type)

    def run(values: Sequence[Value], _rows: int) -> Value:
        if isinstance(values[0], pa.Scalar):
            return writer.texts(as_array(values[0], 1))[0]
        return writer.texts(values[0])

    return run


class _Writer:
    """Writes arrays as JSON, null where a value is null."""

    def __init__(self, skips_nulls: bool, zone_name: str, options: Mapping[str, str]) -> None:
        self._skips_nulls = skips_nulls
        self._zone_name = zone_name
        self._options = options
        self._quoted = rowwise(quoted, pa.string())

    def check(self, type: pa.DataType) -> None:
        """Raises `UnsupportedError` for a type that cannot be written."""
        if pa.types.is_interval(type) or pa.types.is_duration(type) or pa.types.is_time(type):
            raise UnsupportedError(f"to_json of {type} is not supported: cast it to a string")
        for number in range(type.num_fields):
            self.check(type.field(number).type)

    def texts(self, array: pa.Array) -> pa.Array:
        type = array.type
        if pa.types.is_struct(type):
            return self._structs(array)
        if pa.types.is_map(type):
            return self._maps(array)
        if pa.types.is_list(type):
            elements = pc.fill_null(self.texts(array.values), "null")
            return self._between("[", _joined(array, elements), "]")
        if pa.types.is_string(type):
            return self._strings(array)
        if pa.types.is_null(type):
            return pa.nulls(len(array), pa.string())
        if pa.types.is_boolean(type):
            return pc.cast(array, pa.string())
        if pa.types.is_date32(type) or pa.types.is_timestamp(type):
            return self._between('"', time_texts(array, self._options, self._zone_name), '"')
        if pa.types.is_binary(type):
            return self._between('"', pc.cast(_base64([array], len(array)), pa.string()), '"')
        texts = number_texts(array, plain_decimals=False)
        if pa.types.is_floating(type):
            plain = pc.is_finite(array)
            return pc.if_else(plain, texts, self._between('"', texts, '"'))
        return texts

    def _between(self, before: str, texts: pa.Array, after: str) -> pa.Array:
        return pc.binary_join_element_wise(before, texts, after, "")

    def _strings(self, array: pa.Array) -> pa.Array:
        if pc.any(pc.match_substring_regex(array, r'["\\\x00-\x1f]')).as_py():
            return as_array(self._quoted([array], len(array)), len(array))
        return self._between('"', array, '"')

    def _structs(self, array: pa.Array) -> pa.Array:
        parts = []
        for number, field in enumerate(array.flatten()):
            texts = self.texts(field)
            if not self._skips_nulls:
                texts = pc.fill_null(texts, "null")
            parts.append(self._between(quoted(array.type.field(number).name) + ":", texts, ""))
        if not parts:
            return pc.if_else(array.is_valid(), pa.scalar("{}"), pa.scalar(None, pa.string()))
        nothing = pa.array(~np.any([valid(part) for part in parts], axis=0))
        parts[0] = pc.if_else(nothing, pa.scalar(""), parts[0])
        whole = self._between("{", pc.binary_join_element_wise(*parts, ",", null_handling="skip"), "}")
        return pc.if_else(array.is_valid(), whole, pa.scalar(None, pa.string())) if array.null_count else whole

    def _maps(self, array: pa.Array) -> pa.Array:
        keys = array.keys
        names = keys if pa.types.is_string(keys.type) else self._keys(keys)
        items = pc.fill_null(self.texts(array.items), "null")
        entries = pc.binary_join_element_wise(self._strings(names), items, ":")
        return self._between("{", _joined(array, entries), "}")

    def _keys(self, keys: pa.Array) -> pa.Array:
        if pa.types.is_date32(keys.type):
            return pc.cast(keys.view(pa.int32()), pa.string())
        if pa.types.is_timestamp(keys.type):
            return pc.cast(keys.view(pa.int64()), pa.string())
        if pa.types.is_boolean(keys.type):
            return pc.cast(keys, pa.string())
        if pa.types.is_nested(keys.type) or pa.types.is_binary(keys.type):
            raise UnsupportedError(f"to_json of a map with keys of {keys.type} is not supported")
        return number_texts(keys, plain_decimals=False)


def check_patterns(options: Mapping[str, str]) -> None:
    """Raises `UnsupportedError` for patterns of times, by the names of options in small letters, that are not known."""
    for name, pattern in options.items():
        if name.endswith("format"):
            check_pattern(str(pattern), parsing=False)


def time_texts(array: pa.Array, options: Mapping[str, str], zone_name: str) -> pa.Array:
    """Dates or timestamps as to_json and to_csv write them."""
    is_date = pa.types.is_date32(array.type)
    option = "dateformat" if is_date else "timestampformat" if array.type.tz else "timestampntzformat"
    if option in options:
        return pattern_texts(array, options[option], zone_name)
    return date_texts(array) if is_date else timestamp_texts(array, zone(zone_name))


def timestamp_texts(array: pa.Array, session: Zone) -> pa.Array:
    """Times with milliseconds, and with the offset of the session if they are instants."""
    there = valid(array)
    utc = numbers(array.view(pa.int64())).astype(np.int64)
    offsets = session.offsets(utc) if array.type.tz else np.zeros(len(utc), np.int64)
    texts = local_texts(utc + offsets, there)
    return pc.binary_join_element_wise(texts, _offset_texts(offsets), "") if array.type.tz else texts


_base64 = rowwise(lambda data: base64.b64encode(data).decode(), pa.string())


def _offset_texts(offsets_us: np.ndarray) -> pa.Array:
    known, places = np.unique(offsets_us // 1_000_000, return_inverse=True)
    return pa.array([_offset_text(seconds) for seconds in known.tolist()], pa.string()).take(pa.array(places))


def _offset_text(offset_s: int) -> str:
    minutes, seconds = divmod(abs(offset_s), 60)
    if not offset_s:
        return "Z"
    text = f"{'-' if offset_s < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds:02d}" if seconds else text


def _joined(lists: pa.Array, elements: pa.Array) -> pa.Array:
    """The texts of the elements of each list or map, joined by commas."""
    mask = pa.array(~valid(lists)) if lists.null_count else None
    offsets = lists.offsets
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets.to_numpy(), pa.int32()), elements, mask=mask), ",")
