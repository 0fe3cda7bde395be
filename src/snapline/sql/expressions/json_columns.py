"""JSON objects read by Arrow, which is many times faster and understands only what is beyond doubt."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from snapline.sql.expressions.values import valid


def is_plain(type: pa.DataType) -> bool:
    """Whether Arrow reads JSON into this type as Spark does."""
    if pa.types.is_struct(type):
        names = [type.field(n).name for n in range(type.num_fields)]
        return (
            bool(names)
            and len(set(names)) == len(names)
            and all(is_plain(type.field(n).type) for n in range(type.num_fields))
        )
    if pa.types.is_list(type):
        return is_plain(type.value_type)
    return bool(
        pa.types.is_string(type)
        or pa.types.is_boolean(type)
        or type in (pa.int32(), pa.int64())
        or pa.types.is_float64(type)
    )


def read_objects(texts: pa.Array, type: pa.DataType) -> pa.Array | None:
    """The structs in the texts, or None if one is not an object of exactly this type on a line of its own."""
    filled = pc.fill_null(texts, "{}") if texts.null_count else texts
    if pc.any(pc.match_substring_regex(filled, r":\s*-0\s*[,}]")).as_py():
        return None  # Jackson reads zero, Arrow its opposite.
    is_line = pc.and_(pc.starts_with(filled, "{"), pc.invert(pc.match_substring(filled, "\n")))
    if not len(texts) or not pc.all(is_line).as_py():
        return None
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(filled)], filled), "\n")[0].as_buffer()
    try:
        table = pa.json.read_json(
            pa.BufferReader(lines),
            pa.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            pa.json.ParseOptions(explicit_schema=pa.schema(list(type)), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(texts):
        return None
    columns = [table.column(n).combine_chunks().cast(type.field(n).type) for n in range(type.num_fields)]
    mask = pa.array(~valid(texts)) if texts.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(type), mask=mask)
