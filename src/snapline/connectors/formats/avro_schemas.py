"""Avro schemas as Arrow schemas, and the other way round."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from snapline.connectors.formats.type_tree import LISTS
from snapline.errors import ConfigurationError

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_WRITTEN = (
    (pt.is_boolean, "boolean"),
    (lambda kind: (pt.is_integer(kind) and kind.bit_width < 32) or kind == pa.int32(), "int"),
    (lambda kind: kind in (pa.int64(), pa.uint32()), "long"),
    (lambda kind: kind in (pa.float16(), pa.float32()), "float"),
    (pt.is_float64, "double"),
    (lambda kind: pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind), "string"),
    (
        lambda kind: (
            pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) or pt.is_binary_view(kind)
        ),
        "bytes",
    ),
    (pt.is_date, {"type": "int", "logicalType": "date"}),
    (pt.is_time32, {"type": "int", "logicalType": "time-millis"}),
    (lambda kind: kind == pa.time64("us"), {"type": "long", "logicalType": "time-micros"}),
    (pt.is_null, "null"),
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_DECIMAL_DIGITS = 38


def arrow_schema(avro: Any) -> pa.Schema:
    """The columns of a record. Raises `ConfigurationError`, which names the field, if Arrow has no type for one."""
    if not isinstance(avro, Mapping) or avro.get("type") != "record":
        raise ConfigurationError("formats.Avro(): the schema is no record, so it has no columns; wrap it in one")
    return pa.schema(list(_struct(avro, {avro["name"]: None}, ())))


def _struct(avro: Mapping[str, Any], known: dict[str, Any], path: tuple[str, ...]) -> pa.StructType:
    fields = []
    for field in avro["fields"]:
        kind, nullable = _arrow(field["type"], known, (*path, field["name"]))
        fields.append(pa.field(field["name"], kind, nullable))
    return pa.struct(fields)


def _arrow(avro: Any, known: dict[str, Any], path: tuple[str, ...]) -> tuple[pa.DataType, bool]:
    """The Arrow type of an Avro type, and whether its values can be null."""
    if isinstance(avro, list):
        others = [kind for kind in avro if kind != "null"]
        if len(others) != 1:
            raise _unsupported(path, f"a union of {len(others)} types; one type with or without null is a column")
        return _arrow(others[0], known, path)[0], len(others) < len(avro)
    if isinstance(avro, str):
        if avro in _PLAIN:
            return _PLAIN[avro], avro == "null"
        if avro not in known or known[avro] is None:
            raise _unsupported(path, f"{avro!r}, which contains itself" if avro in known else f"{avro!r}, not defined")
        return known[avro], False
    name = avro.get("name")
    if name is not None:
        known[name] = None  # until it is complete
    kind = _complex(avro, known, path)
    if name is not None:
        known[name] = kind
    return kind, False


def _complex(avro: Mapping[str, Any], known: dict[str, Any], path: tuple[str, ...]) -> pa.DataType:
    base, logical = avro["type"], avro.get("logicalType", "")
    if not isinstance(base, str):
        return _arrow(base, known, path)[0]
    if base in ("record", "error"):
        return _struct(avro, known, path)
    if base == "array":
        item, nullable = _arrow(avro["items"], known, path)
        return pa.list_(pa.field("item", item, nullable))
    if base == "map":
        item, nullable = _arrow(avro["values"], known, path)
        return pa.map_(pa.string(), pa.field("value", item, nullable))
    if logical == "decimal" and base in ("bytes", "fixed"):
        if avro["precision"] > _MAX_DECIMAL_DIGITS:
            raise _unsupported(path, f"a decimal of {avro['precision']} digits, not {_MAX_DECIMAL_DIGITS}")
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    if base == "fixed":
        return pa.binary(avro["size"])
    return _LOGICAL.get((base, logical), _PLAIN.get(base)) or _arrow(base, known, path)[0]


def _unsupported(path: tuple[str, ...], what: str) -> ConfigurationError:
    return ConfigurationError(f"formats.Avro(): the field {'.'.join(path)!r} is not supported: it is {what}")


def avro_schema(schema: pa.Schema, name: str) -> dict[str, Any]:
    """A record with these columns; those that can be null are unions with null, and null by default.

    Raises `ConfigurationError`, which names the column, if Avro has no type for one.
    """
    return _record(list(schema), name, ())


def _record(fields: list[pa.Field], name: str, path: tuple[str, ...]) -> dict[str, Any]:
    written: list[dict[str, Any]] = []
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise ConfigurationError(
                f"formats.Avro(): the column {'.'.join((*path, field.name))!r} has a name that Avro does not allow; "
                "rename it to letters, digits and underscores"
            )
        kind = _written(field, name, (*path, field.name))
        written.append({"name": field.name, "type": kind} | ({"default": None} if field.nullable else {}))
    return {"type": "record", "name": name, "fields": written}


def _written(field: pa.Field, name: str, path: tuple[str, ...]) -> Any:
    kind = _written_type(field.type, f"{name}_{field.name}", path)
    return ["null", kind] if field.nullable and kind != "null" else kind


def _written_type(kind: pa.DataType, name: str, path: tuple[str, ...]) -> Any:
    if pt.is_dictionary(kind):
        return _written_type(kind.value_type, name, path)
    if pt.is_struct(kind):
        return _record(list(kind), name, path)
    if any(test(kind) for test in LISTS):
        return {"type": "array", "items": _written(kind.value_field, name, path)}
    if pt.is_map(kind) and _written_type(kind.key_type, name, path) == "string":
        return {"type": "map", "values": _written(kind.item_field, name, path)}
    if pt.is_decimal128(kind) and kind.scale >= 0:
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pt.is_timestamp(kind) and kind.unit != "ns":
        prefix = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{prefix}timestamp-{'micros' if kind.unit == 'us' else 'millis'}"}
    for test, written in _WRITTEN:
        if test(kind):
            return written
    raise ConfigurationError(
        f"formats.Avro(): the column {'.'.join(path)!r} is {kind}, which Avro does not have; cast it before"
    )


def without_logical_types(avro: Any, *, only_uuid: bool = False) -> Any:
    """A schema that reads and writes times as numbers, far quicker than as objects. Decimals stay."""
    if isinstance(avro, list):
        return [without_logical_types(kind, only_uuid=only_uuid) for kind in avro]
    if not isinstance(avro, Mapping):
        return avro
    inner = {
        key: without_logical_types(value, only_uuid=only_uuid)
        if key in ("type", "items", "values", "fields")
        else value
        for key, value in avro.items()
    }
    logical = inner.get("logicalType")
    if logical is not None and logical != "decimal" and (logical == "uuid" or not only_uuid):
        del inner["logicalType"]
    return inner


def schema_text(avro: Any) -> str:
    """A schema as JSON, as registries take it, without what fastavro adds to it."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items() if not key.startswith("__")}
        return [plain(inner) for inner in value] if isinstance(value, list) else value

    return json.dumps(plain(avro), separators=(",", ":"))
