"""The stable hash, against values that must never change and against a second implementation in plain Python."""

from __future__ import annotations

import datetime
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.errors import ConfigurationError
from snapline.state.stable_hash import NullKeyError, encode, hash_columns, hash_key, key_groups, word_of

DAY_ZERO = datetime.date(1970, 1, 1)
EPOCH = datetime.datetime(1970, 1, 1)
UTC = datetime.UTC

# --- what must never change ------------------------------------------------------------------------------------------

GOLDEN: list[tuple[str, tuple[Any, ...], int]] = [
    ("seven", (7,), 0x63CBE1E459320DD7),
    ("zero", (0,), 0xE220A8397B1DCDAF),
    ("one", (1,), 0x910A2DEC89025CC1),
    ("minus one", (-1,), 0xE4D971771B652C20),
    ("largest", (2**63 - 1,), 0x2A67D7552E039EA7),
    ("smallest", (-(2**63),), 0x481EC0A212A9F3DB),
    ("true", (True,), 0x910A2DEC89025CC1),
    ("false", (False,), 0xE220A8397B1DCDAF),
    ("0.0", (0.0,), 0xE220A8397B1DCDAF),
    ("-0.0", (-0.0,), 0xE220A8397B1DCDAF),
    ("1.5", (1.5,), 0xD6DAB18E1392608A),
    ("infinity", (math.inf,), 0x249E5410C2F97D99),
    ("-infinity", (-math.inf,), 0x8CE2CA027CDA7FFE),
    ("nan", (math.nan,), 0xC72971D82E15BB46),
    ("smallest float", (5e-324,), 0x910A2DEC89025CC1),
    ("hello", ("hello",), 0x18B94ADA11ADE4C8),
    ("empty text", ("",), 0xE220A8397B1DCDAF),
    ("eight bytes", ("12345678",), 0xD4531850AC9C8614),
    ("nine bytes", ("123456789",), 0x1CBA6847E88F53BB),
    ("japanese", ("日本語",), 0x4ADD2A3A75093088),
    ("nul", ("a\0",), 0x1DCBD09DEA2EDEE2),
    ("text a", ("a",), 0xDE7AE3B6FE998101),
    ("no bytes", (b"",), 0xE220A8397B1DCDAF),
    ("bytes", (b"\x00\xff",), 0x5DF604EEEFD774CE),
    ("zeros", (b"\0" * 16,), 0x55014761DA994A94),
    ("date", (datetime.date(2026, 1, 1),), 0x89DB5515B8DE1F50),
    ("old date", (datetime.date(1, 1, 1),), 0x4186BAB396079324),
    ("1970", (DAY_ZERO,), 0xE220A8397B1DCDAF),
    ("datetime", (datetime.datetime(2026, 1, 1),), 0x0E41239F784E15E7),
    ("microsecond", (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),), 0xB256910662184BE2),
    ("datetime in UTC", (datetime.datetime(2026, 1, 1, tzinfo=UTC),), 0x0E41239F784E15E7),
    ("text and number", ("a", 1), 0x8B199A42F3B0122C),
    ("number and text", (1, "a"), 0xFCB9E278DB2F56C9),
    ("two ones", (1, 1), 0x60085043B87E7EDC),
    ("three", ("x", b"y", 0.5), 0x24DFDAC7FF5CA9A1),
    ("date and bool", (datetime.date(2026, 1, 1), True), 0x73CC081C124D4804),
]


@pytest.mark.parametrize(("values", "expected"), [case[1:] for case in GOLDEN], ids=[case[0] for case in GOLDEN])
def test_golden(values: tuple[Any, ...], expected: int) -> None:
    assert hash_key(*values) == expected
    assert reference(*values) == expected


TYPED_GOLDEN: list[tuple[pa.DataType, Any, int]] = [
    (pa.uint64(), 2**64 - 1, 0xE4D971771B652C20),
    (pa.int8(), -128, 0x91DE0036E7E6BC39),
    (pa.uint8(), 255, 0x338C507146283FB4),
    (pa.float32(), 0.1, 0xAA508B85B52FE89C),
    (pa.timestamp("s"), datetime.datetime(2026, 1, 1), 0x0E41239F784E15E7),
    (pa.timestamp("ms", tz="UTC"), datetime.datetime(2026, 1, 1, tzinfo=UTC), 0x0E41239F784E15E7),
    (pa.date64(), datetime.date(2026, 1, 1), 0x89DB5515B8DE1F50),
    (pa.large_string(), "hello", 0x18B94ADA11ADE4C8),
    (pa.string_view(), "hello", 0x18B94ADA11ADE4C8),
    (pa.large_binary(), b"hello", 0x18B94ADA11ADE4C8),
    (pa.binary(5), b"hello", 0x18B94ADA11ADE4C8),
]


@pytest.mark.parametrize(("kind", "value", "expected"), TYPED_GOLDEN, ids=[str(case[0]) for case in TYPED_GOLDEN])
def test_golden_of_types(kind: pa.DataType, value: Any, expected: int) -> None:
    assert hash_columns([pa.array([value], kind)]).tolist() == [expected]


def test_golden_key_groups() -> None:
    hashes = hash_columns([pa.array(range(10))])
    assert key_groups(hashes, 128).tolist() == [47, 65, 78, 109, 74, 90, 0, 87, 54, 100]
    assert key_groups(hashes, 300).tolist() == [235, 65, 10, 153, 178, 218, 92, 87, 22, 28]
    assert key_groups(hashes, 1).tolist() == [0] * 10
    assert key_groups(hashes, 32768).tolist() == [19887, 23745, 22222, 4077, 2762, 17242, 24576, 3543, 13878, 24676]


# --- the same in plain Python, from the description in the module ----------------------------------------------------

MASK = 2**64 - 1
GAMMA, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def finalised(x: int) -> int:
    x &= MASK
    x ^= x >> 30
    x = x * MIX_1 & MASK
    x ^= x >> 27
    x = x * MIX_2 & MASK
    return x ^ x >> 31


def folded(h: int, w: int) -> int:
    return finalised((h ^ w) * GAMMA + MIX_2)


def of_whole_number(x: int) -> int:
    return finalised(x + GAMMA)


def of_float(x: float) -> int:
    bits: int = 0x7FF8000000000000 if math.isnan(x) else struct.unpack("<Q", struct.pack("<d", x if x else 0.0))[0]
    return of_whole_number(bits)


def of_bytes(data: bytes) -> int:
    h = finalised(len(data) * GAMMA + GAMMA)
    for start in range(0, len(data), 8):
        h = folded(h, int.from_bytes(data[start : start + 8].ljust(8, b"\0"), "little"))
    return h


def of_datetime(moment: datetime.datetime) -> int:
    naive = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return of_whole_number((naive - EPOCH) // datetime.timedelta(microseconds=1) * 1000)


def of_one(value: Any) -> int:
    match value:
        case bool() | int():
            return of_whole_number(int(value))
        case float():
            return of_float(value)
        case str():
            return of_bytes(value.encode())
        case bytes():
            return of_bytes(value)
        case datetime.datetime():
            return of_datetime(value)
        case datetime.date():
            return of_whole_number((value - DAY_ZERO).days)
    raise AssertionError(value)


def reference(*values: Any) -> int:
    if len(values) == 1:
        return of_one(values[0])
    h = finalised(len(values) * GAMMA)
    for value in values:
        h = folded(h, of_one(value))
    return h


# --- both agree ------------------------------------------------------------------------------------------------------


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
moments = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2250, 1, 1))
whole_seconds = st.builds(lambda s: EPOCH + datetime.timedelta(seconds=s), st.integers(-(10**10), 10**10))
dates = st.dates()

TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): integers(8),
    pa.int16(): integers(16),
    pa.int32(): integers(32),
    pa.int64(): integers(64),
    pa.uint8(): st.integers(0, 2**8 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float16(): st.floats(width=16),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): text,
    pa.large_string(): text,
    pa.string_view(): text,
    pa.binary(): st.binary(max_size=40),
    pa.large_binary(): st.binary(max_size=40),
    pa.binary(9): st.binary(min_size=9, max_size=9),
    pa.bool_(): st.booleans(),
    pa.date32(): dates,
    pa.date64(): dates,
    pa.timestamp("s"): whole_seconds,
    pa.timestamp("ms"): whole_seconds,
    pa.timestamp("us"): moments,
    pa.timestamp("ns"): moments,
    pa.timestamp("us", tz="UTC"): moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.timestamp("s", tz="Asia/Tokyo"): whole_seconds.map(lambda moment: moment.replace(tzinfo=UTC)),
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any]]:
    kind = draw(st.sampled_from(list(TYPES)))
    return kind, draw(st.lists(TYPES[kind], max_size=12))


def made(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(np.array(values, np.float16), kind) if pa.types.is_float16(kind) else pa.array(values, kind)


@settings(max_examples=150)
@given(columns(), st.integers(0, 12), st.integers(0, 12))
def test_every_type_hashes_as_it_says(column: tuple[pa.DataType, list[Any]], start: int, count: int) -> None:
    kind, values = column
    array, expected = made(values, kind), [reference(value) for value in values]
    assert hash_columns([array]).tolist() == expected
    assert hash_columns([array.slice(start, count)]).tolist() == expected[start : start + count]
    chunked = pa.chunked_array([array.slice(0, start), array.slice(start)], kind)
    assert hash_columns([chunked]).tolist() == expected
    if not (pa.types.is_float16(kind) or pa.types.is_string_view(kind)):
        assert hash_columns([array.dictionary_encode()]).tolist() == expected


@settings(max_examples=100)
@given(st.lists(columns(), min_size=2, max_size=4))
def test_composite_keys_hash_as_they_say(given: list[tuple[pa.DataType, list[Any]]]) -> None:
    rows = min(len(values) for _, values in given)
    arrays = [made(values, kind).slice(0, rows) for kind, values in given]
    expected = [reference(*(values[row] for _, values in given)) for row in range(rows)]
    assert hash_columns(arrays).tolist() == expected


@settings(max_examples=50)
@given(st.lists(st.one_of(integers(64), st.floats(), text, st.binary(max_size=9), dates, moments), min_size=1))
def test_one_key_hashes_as_in_a_column(values: list[Any]) -> None:
    assert hash_key(*values) == reference(*values)
    assert [hash_key(value) for value in values] == [reference(value) for value in values]


@given(integers(8))
def test_equal_numbers_hash_alike_whatever_their_width(number: int) -> None:
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    if number >= 0:
        kinds += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    assert {int(hash_columns([pa.array([number], kind)])[0]) for kind in kinds} == {reference(number)}


def test_equal_moments_hash_alike_whatever_their_unit() -> None:
    moment = datetime.datetime(2026, 1, 1)
    kinds = [pa.timestamp(unit, tz=tz) for unit in ("s", "ms", "us", "ns") for tz in (None, "UTC")]
    hashes = {int(hash_columns([pa.array([moment], kind)])[0]) for kind in kinds}
    assert hashes == {reference(moment)}


def test_long_strings_among_short_ones() -> None:
    values = ["", "x" * 5000, "y", "x" * 4999 + "y", "é" * 100, *"abcdefgh"]
    assert hash_columns([pa.array(values)]).tolist() == [reference(value) for value in values]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_nothing_has_no_hashes(kind: pa.DataType) -> None:
    for nothing in (pa.array([], kind), pa.chunked_array([], kind), pa.nulls(3, kind).slice(3)):
        assert len(hash_columns([nothing])) == 0
    assert len(hash_columns([pa.array([], kind), pa.array([], pa.string())])) == 0


def test_the_keys_are_not_written_to() -> None:
    numbers = np.arange(100, dtype=np.uint64)
    hash_columns([pa.array(numbers)])
    assert numbers.tolist() == list(range(100))


# --- what cannot be a key --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_nulls_are_no_keys(kind: pa.DataType) -> None:
    with pytest.raises(NullKeyError, match="'city'") as caught:
        encode(pa.nulls(1, kind), "city")
    assert caught.value.column == "city"


def test_the_column_with_the_null_is_named() -> None:
    columns = [pa.array(["x"]), pa.array([None], pa.int64())]
    with pytest.raises(NullKeyError, match="'b'"):
        hash_columns(columns, ["a", "b"])
    with pytest.raises(NullKeyError, match=r"'key\[1\]'"):
        hash_columns(columns)
    with pytest.raises(NullKeyError):
        hash_columns([pa.array(["x", None]).dictionary_encode()])


def test_a_null_outside_a_slice_does_not_matter() -> None:
    array = pa.array([None, 1, 2, None]).slice(1, 2)
    assert hash_columns([array]).tolist() == [reference(1), reference(2)]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.decimal128(5, 2), pa.duration("s"), pa.null()], ids=str)
def test_other_types_are_no_keys(kind: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a key"):
        encode(pa.array([], kind))


def test_a_key_has_a_column() -> None:
    with pytest.raises(ConfigurationError, match="at least one column"):
        hash_columns([])


# --- spread ----------------------------------------------------------------------------------------------------------

KEYS = 20_000
SPREADS: dict[str, pa.Array] = {
    "sequential": pa.array(range(KEYS)),
    "steps of 1024": pa.array(range(0, KEYS * 1024, 1024)),
    "negative": pa.array(range(-KEYS, 0)),
    "floats": pa.array([number / 4 for number in range(KEYS)]),
    "short strings": pa.array([str(number) for number in range(KEYS)]),
    "long strings": pa.array([f"customer/{number:012}/orders" for number in range(KEYS)]),
    "seconds": pa.array(range(KEYS), pa.timestamp("s")),
}


@pytest.mark.parametrize("max_parallelism", [128, 100, 7])
@pytest.mark.parametrize("name", SPREADS)
def test_keys_spread_evenly_over_key_groups(name: str, max_parallelism: int) -> None:
    counts = np.bincount(key_groups(hash_columns([SPREADS[name]]), max_parallelism), minlength=max_parallelism)
    expected = KEYS / max_parallelism
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = max_parallelism - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom), "less even than chance would have it"


def test_pairs_spread_evenly_too() -> None:
    columns = [pa.array([number % 100 for number in range(KEYS)]), pa.array([number // 100 for number in range(KEYS)])]
    counts = np.bincount(key_groups(hash_columns(columns), 128), minlength=128)
    expected = KEYS / 128
    assert float(((counts - expected) ** 2 / expected).sum()) < 127 + 5 * math.sqrt(254)
    assert len(set(hash_columns(columns).tolist())) == KEYS


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (128, pa.int8()),
        (-1, pa.uint8()),
        (True, pa.int64()),
        (1, pa.bool_()),
        ("x", pa.binary()),
        (1.0, pa.float64()),
        ("\ud800", pa.string()),
        (None, pa.int64()),
    ],
)
def test_what_only_a_column_can_tell(value: Any, kind: pa.DataType) -> None:
    assert word_of(value, kind) is None
