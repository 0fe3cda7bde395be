"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import applied, call, column, condition, literal, values


def test_hexadecimal() -> None:
    numbers, texts = pa.array([255, -1, None]), pa.array(["a", "é", None])
    assert values(applied("Hex", pa.string(), numbers), numbers) == ["FF", "F" * 16, None]
    assert values(applied("Hex", pa.string(), texts), texts) == ["61", "C3A9", None]
    written = pa.array(["61", "F", "zz", None])
    assert values(applied("Unhex", pa.binary(), written), written) == [b"a", b"\x0f", None, None]


def test_binary() -> None:
    array = pa.array([5, -1])
    assert values(applied("Bin", pa.string(), array), array) == ["101", "1" * 64]


def test_any_base() -> None:
    array = pa.array(["ff", "-1", "zz", "99999999999999999999999"])

    def converted(source: int, target: int, mode: bool = False) -> object:
        bases = [literal(base, pa.int32()) for base in (source, target)]
        return call("Conv", pa.string(), column(0, pa.string()), *bases, ansiEnabled=mode)

    assert values(converted(16, 10), array)[:2] == ["255", "18446744073709551615"]  # type: ignore[arg-type]
    assert values(converted(10, -10), array)[1] == "-1"  # type: ignore[arg-type]
    assert values(converted(10, 16), array)[3] == "F" * 16  # type: ignore[arg-type]
    assert values(converted(1, 10), array) == [None] * 4  # type: ignore[arg-type]
    assert condition(converted(10, 16, True), array) == "ARITHMETIC_OVERFLOW"  # type: ignore[arg-type]
