from __future__ import annotations

import pyarrow as pa

from snapline.sql.expressions.type_names import type_name


def test_names_as_typeof_gives_them() -> None:
    type = pa.struct([("a", pa.list_(pa.decimal128(5, 2))), ("b", pa.map_(pa.string(), pa.timestamp("us")))])
    assert type_name(type) == "struct<a:array<decimal(5,2)>,b:map<string,timestamp_ntz>>"
    assert type_name(pa.null()) == "void"
    assert type_name(pa.duration("us")) == "interval day to second"
