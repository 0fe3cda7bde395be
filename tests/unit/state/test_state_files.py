"""State files: all kinds and types come back unchanged, only what is needed is read, and damage is noticed."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snapline.errors import DamagedError, EngineError, StorageError
from snapline.protocol.keygroups import EMPTY, KeyGroupRange
from snapline.state import state_files
from snapline.state.state_files import describe, iterate, read, write
from snapline.state.state_info import PICKLED, StateInfo, StateKind, ValueEncoding, is_pickled

NOON = dt.datetime(2024, 2, 29, 12)
UNITS = ("s", "ms", "us", "ns")


def _info(kind: StateKind, **fields: Any) -> StateInfo:
    settings = {"max_parallelism": 128 if kind.is_keyed else None, "encoding": ValueEncoding.ARROW, **fields}
    return StateInfo("count/é", "total", kind, **settings)


def _file(info: StateInfo, table: pa.Table, *, zstd: bool = False) -> io.BytesIO:
    return io.BytesIO(write(info, table, zstd=zstd).to_pybytes())


def _values(key_groups: list[int], **columns: Any) -> pa.Table:
    rows = list(range(len(key_groups)))
    return pa.table({"key_group": pa.array(key_groups, pa.int32()), "key": rows, "value": rows, **columns})


KINDS = [
    (_info(StateKind.VALUE), {"key_group": [0, 5], "key": ["a", "b"], "value": [1, None]}),
    (_info(StateKind.VALUE, ttl_ms=9), {"key_group": [0], "key": ["a"], "value": [1], "last_update_ms": [7]}),
    (_info(StateKind.VALUE, encoding=ValueEncoding.PICKLE), {"key_group": [0], "key": [1], "value": [b"\x80"]}),
    (_info(StateKind.REDUCING), {"key_group": [0], "key": [{"a": 1}], "namespace": [[1, 2]], "value": [1.5]}),
    (_info(StateKind.AGGREGATING), {"key_group": [0], "key": [True], "value": [{"sum": 1, "count": 2}]}),
    (_info(StateKind.LIST), {"key_group": [0, 0], "key": [1, 1], "position": [0, 1], "value": ["x", "y"]}),
    (_info(StateKind.MAP), {"key_group": [9], "key": [1], "map_key": ["k"], "value": [{"deep": [1]}]}),
    (_info(StateKind.TIMERS), {"key_group": [9], "key": [1], "namespace": ["w"], "time": [-1], "domain": ["event"]}),
    (_info(StateKind.RAW), {"key_group": [0, 127], "data": [b"", b"\xff"]}),
    (_info(StateKind.OPERATOR_LIST), {"value": ["a", None]}),
    (_info(StateKind.OPERATOR_UNION), {"value": [1]}),
    (_info(StateKind.OPERATOR_BROADCAST), {"map_key": ["k"], "value": [1]}),
    (_info(StateKind.RAW_OPERATOR), {"data": [b"x"]}),
]


def _table(columns: dict[str, list[Any]]) -> pa.Table:
    fixed = {"key_group": pa.int32(), "data": pa.binary()}
    return pa.table({name: pa.array(values, fixed.get(name)) for name, values in columns.items()})


@pytest.mark.parametrize("zstd", [False, True])
@pytest.mark.parametrize(("info", "columns"), KINDS, ids=lambda item: getattr(getattr(item, "kind", None), "name", ""))
def test_every_kind_comes_back(info: StateInfo, columns: dict[str, list[Any]], *, zstd: bool) -> None:
    table = _table(columns)
    for part in (table, table.slice(0, 0)):
        file = _file(info, part, zstd=zstd)
        found, rows = read(file)
        assert found == info == describe(file).info
        assert rows == part
        assert rows.schema == part.schema
        assert describe(file) == state_files.StateFile(info, part.schema, part.num_rows)
        assert pa.concat_tables([part.slice(0, 0), *iterate(file)]) == part


def _array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.array(values, kind)


NAMED = pa.struct([("a", pa.int8()), ("when", pa.timestamp("s")), ("tag", pa.dictionary(pa.int8(), pa.string()))])
ARRAYS = [
    *(_array(kind, [0, None, 1, 127]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(_array(kind, [0, None, 255]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    _array(pa.uint64(), [2**64 - 1]),
    *(_array(kind, [1.5, None, -0.0, float("inf")]) for kind in (pa.float16(), pa.float32(), pa.float64())),
    _array(pa.bool_(), [True, None]),
    *(_array(kind, ["ü", None, ""]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *(_array(kind, [b"\x00", None, b""]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    _array(pa.binary(3), [b"abc", None]),
    *(_array(kind, [NOON.date(), None]) for kind in (pa.date32(), pa.date64())),
    *(_array(pa.timestamp(unit, zone), [NOON, None]) for unit in UNITS for zone in (None, "Europe/Berlin", "+02:00")),
    *(_array(pa.duration(unit), [dt.timedelta(days=-1), None]) for unit in UNITS),
    *(
        _array(kind, [dt.time(12), None])
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    ),
    _array(pa.decimal32(5, 2), [Decimal("1.23"), None]),
    _array(pa.decimal64(15, 2), [Decimal("1.23"), None]),
    _array(pa.decimal128(38, 2), [Decimal("-1.23"), None]),
    _array(pa.decimal256(70, 2), [Decimal("1.23"), None]),
    _array(pa.list_(pa.int64()), [[1, None], None, []]),
    _array(pa.large_list(pa.date64()), [[NOON.date()], None]),
    _array(pa.list_(pa.int64(), 2), [[1, 2], None]),
    _array(pa.list_(pa.field("x", pa.int8(), nullable=False)), [[1]]),
    _array(pa.list_view(pa.int64()), [[1], [], None]),
    _array(pa.map_(pa.string(), pa.time32("s")), [[("a", dt.time(1))], None, []]),
    _array(NAMED, [{"a": 1, "when": None, "tag": "x"}, None]),
    _array(pa.dictionary(pa.int8(), pa.string()), ["b", "a", None, "b"]),
    _array(pa.dictionary(pa.int64(), pa.large_string()), ["b", "a"]),
    _array(pa.dictionary(pa.uint16(), pa.string(), ordered=True), ["b", "a"]),
    _array(pa.timestamp("s"), [NOON, None, NOON]).dictionary_encode(),
    _array(pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a", "a"], None]),
    _array(pa.null(), [None, None]),
    _array(pa.list_(pa.null()), [[None], [], None]),
    _array(pa.struct([("n", pa.null())]), [{"n": None}, None]),
    _array(pa.uuid(), [b"0123456789abcdef", None]),
]
BEYOND_PARQUET = [
    _array(pa.struct([]), [{}, None]),
    _array(pa.struct([("empty", pa.struct([])), ("i", pa.int8())]), [{"empty": {}, "i": 1}, None]),
    _array(pa.month_day_nano_interval(), [(1, 2, 3), None]),
    _array(pa.decimal128(5, -2), [Decimal(100), None]),
    _array(pa.struct([("d", pa.dictionary(pa.int8(), pa.int64()))]), [{"d": 5}, {"d": 6}, None]),
    pa.RunEndEncodedArray.from_arrays([2, 3], [5, None]),
    pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["b"])]
    ),
]


@pytest.mark.parametrize("array", [*ARRAYS, *BEYOND_PARQUET], ids=lambda array: str(array.type))
def test_every_type_comes_back_exactly(array: pa.Array) -> None:
    info = _info(StateKind.OPERATOR_LIST)
    for values in (array, array.slice(1), array.slice(0, 0), pa.chunked_array([array, array])):
        table = pa.table({"value": values})
        _, rows = read(_file(info, table))
        assert rows.schema.equals(table.schema, check_metadata=True)
        assert rows.to_pylist() == table.to_pylist()


def test_a_type_parquet_cannot_hold_is_kept_as_arrow_streams() -> None:
    table = pa.table({"value": pa.array([{}, None], pa.struct([]))})
    stored = pq.read_table(_file(_info(StateKind.OPERATOR_LIST), table))["value"]
    assert [pa.ipc.open_stream(value).read_all().to_pylist() for value in stored.to_pylist()] == [
        [{"value": {}}],
        [{"value": None}],
    ]


def test_fields_that_are_never_null_stay_so() -> None:
    schema = pa.schema([pa.field("value", pa.timestamp("s"), nullable=False)])
    table = pa.table({"value": pa.array([1], pa.timestamp("s"))}, schema=schema)
    assert read(_file(_info(StateKind.OPERATOR_LIST), table))[1].schema == schema


def test_a_column_other_than_the_value_may_say_that_it_is_pickled() -> None:
    info = _info(StateKind.OPERATOR_BROADCAST, encoding=ValueEncoding.ARROW)
    schema = pa.schema([pa.field("map_key", pa.binary(), metadata=PICKLED), ("value", pa.binary())])
    table = pa.table({"map_key": [b"k"], "value": [b"v"]}, schema=schema)
    file = _file(info, table)
    found, rows = read(file)
    assert [is_pickled(found, field) for field in rows.schema] == [True, False]
    assert pq.read_schema(file).field("map_key").metadata[b"snapline.encoding"] == b"pickle"
    assert is_pickled(_info(StateKind.VALUE, encoding=ValueEncoding.PICKLE), schema.field("value"))


def test_plain_parquet_readers_see_the_columns_and_the_footer() -> None:
    file = pq.ParquetFile(_file(_info(StateKind.VALUE, ttl_ms=5), _values([1, 3], last_update_ms=[1, 2])))
    assert file.read().to_pydict() == {"key_group": [1, 3], "key": [0, 1], "value": [0, 1], "last_update_ms": [1, 2]}
    assert json.loads(file.metadata.metadata[b"snapline.state"]) == {
        "version": 1,
        "uid": "count/é",
        "state": "total",
        "kind": "value",
        "encoding": "arrow",
        "max_parallelism": 128,
        "ttl_ms": 5,
        "key_groups": [[1, 3]],
        "ipc": {},
    }


def test_columns_are_written_in_the_order_of_the_format() -> None:
    table = _values([1]).select(["value", "key", "key_group"])
    assert read(_file(_info(StateKind.VALUE), table))[1].column_names == ["key_group", "key", "value"]


def test_statistics_and_dictionaries_are_only_where_they_pay() -> None:
    chunks = pq.ParquetFile(_file(_info(StateKind.VALUE), _values([1, 2]))).metadata.row_group(0)
    by_name = {chunks.column(index).path_in_schema: chunks.column(index) for index in range(chunks.num_columns)}
    assert by_name["key_group"].statistics.max == 2
    assert by_name["key"].statistics is None
    assert by_name["key_group"].has_dictionary_page
    assert not by_name["key"].has_dictionary_page
    assert by_name["key"].compression == "UNCOMPRESSED"


@pytest.mark.parametrize(
    ("sizes", "target", "limit", "spans"),
    [
        ([], 4, 99, []),
        ([3], 4, 99, [(0, 3)]),
        ([3, 1, 1], 4, 99, [(0, 4), (4, 5)]),
        ([3, 2, 2], 4, 99, [(0, 3), (3, 7)]),
        ([9, 1, 9], 4, 99, [(0, 9), (9, 10), (10, 19)]),
        ([9, 1], 4, 5, [(0, 5), (5, 9), (9, 10)]),
    ],
)
def test_row_groups_hold_whole_key_groups(
    sizes: list[int], target: int, limit: int, spans: list[tuple[int, int]]
) -> None:
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    assert state_files._cut(ends or [0], target, limit) == spans


@pytest.fixture
def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "ROW_GROUP_ROWS", 4)


@pytest.mark.usefixtures("cut_small")
def test_only_the_key_groups_asked_for_are_given() -> None:
    key_groups = [0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 5, 7, 7, 100]
    table = _values(key_groups)
    file = _file(_info(StateKind.VALUE), table)
    for start in range(9):
        for end in range(start, 9):
            wanted = KeyGroupRange(start, end)
            expected = table.filter(pa.array([key_group in wanted for key_group in key_groups]))
            assert read(file, wanted)[1] == expected
            tables = list(iterate(file, wanted))
            assert pa.concat_tables([table.slice(0, 0), *tables]) == expected
            assert all(part.num_rows for part in tables)
    assert read(file, EMPTY)[1] == table.slice(0, 0)
    assert list(iterate(file, KeyGroupRange(3, 4))) == []
    parts = [sorted(set(part["key_group"].to_pylist())) for part in iterate(file)]
    assert parts == [[0, 1], [2], [5, 7, 100]]


@pytest.mark.usefixtures("cut_small")
def test_row_groups_that_are_not_needed_are_not_read() -> None:
    data = bytearray(_file(_info(StateKind.VALUE), _values([0] * 4 + [1] * 4)).getvalue())
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    data[metadata.row_group(0).column(1).data_page_offset + 40] ^= 1
    with pytest.raises(DamagedError, match="CRC"):
        read(io.BytesIO(data))
    assert read(io.BytesIO(data), KeyGroupRange(1, 1))[1].num_rows == 4


@pytest.mark.usefixtures("cut_small")
def test_it_can_be_given_up_between_row_groups() -> None:
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        write(_info(StateKind.VALUE), _values([0] * 4 + [1] * 4 + [2] * 4), zstd=False, check=check)
    write(_info(StateKind.OPERATOR_LIST), pa.table({"value": range(9)}), zstd=False, check=lambda: calls.append(1))
    assert len(calls) == 3 + 3


def test_large_values_make_small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "ROW_GROUP_BYTES", 1000)
    file = _file(_info(StateKind.VALUE), _values([0, 1, 2, 3], value=[b"x" * 600] * 4))
    assert len(list(iterate(file))) == 4


def test_files_and_streams_are_read_alike(tmp_path: Path) -> None:
    table = _values([0, 1])
    path = tmp_path / "state"
    path.write_bytes(_file(_info(StateKind.VALUE), table).getvalue())
    with path.open("rb") as file:
        assert read(file, KeyGroupRange(1, 1))[1] == table.slice(1)
        assert read(file)[1] == table


@pytest.mark.parametrize(
    ("info", "table", "complaint"),
    [
        (_info(StateKind.VALUE), _values([1]).drop(["key"]), "has columns"),
        (_info(StateKind.VALUE), _values([1], extra=[1]), "has columns"),
        (_info(StateKind.VALUE), _values([1], last_update_ms=[1]), "has columns"),
        (_info(StateKind.VALUE, ttl_ms=1), _values([1]), "has columns"),
        (_info(StateKind.TIMERS), _values([1]), "has columns"),
        (_info(StateKind.OPERATOR_LIST), _values([1]), "has columns"),
        (_info(StateKind.VALUE, encoding=ValueEncoding.PICKLE), _values([1]), "value of state 'total' is int64"),
        (_info(StateKind.VALUE), pa.table({"key_group": [1], "key": [1], "value": [1]}), "is int64, not int32"),
        (_info(StateKind.VALUE), _values([2, 1]), "do not ascend"),
        (_info(StateKind.VALUE), _values([-1]), "do not ascend"),
        (_info(StateKind.VALUE), _values([128]), "from 0 to 127"),
        (
            _info(StateKind.RAW),
            pa.table({"key_group": pa.array([None], pa.int32()), "data": [b""]}),
            "without a key group",
        ),
    ],
)
def test_a_table_that_does_not_fit_its_kind_is_a_defect(info: StateInfo, table: pa.Table, complaint: str) -> None:
    with pytest.raises(EngineError, match=complaint):
        write(info, table, zstd=False)


def test_operator_state_has_no_key_groups() -> None:
    file = _file(_info(StateKind.OPERATOR_LIST), pa.table({"value": [1]}))
    with pytest.raises(EngineError, match="no key groups"):
        read(file, KeyGroupRange(0, 1))


def _with_footer(**changes: Any) -> io.BytesIO:
    file = pq.ParquetFile(_file(_info(StateKind.VALUE), _values([1])))
    footer = {**json.loads(file.metadata.metadata[b"snapline.state"]), **changes}
    footer = {name: value for name, value in footer.items() if value != "absent"}
    sink = io.BytesIO()
    table = file.read()
    pq.write_table(table.replace_schema_metadata({b"snapline.state": json.dumps(footer)}), sink)
    return sink


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "absent"},
        {"version": 0},
        {"uid": "absent"},
        {"kind": "other"},
        {"kind": "timers"},
        {"encoding": "pickle"},
        {"max_parallelism": 0},
        {"ttl_ms": 5},
        {"ttl_ms": -5},
        {"key_groups": []},
        {"key_groups": [[1, 1], [2, 2]]},
        {"key_groups": [[0, 9]]},
        {"key_groups": [[9, 9]]},
        {"key_groups": [["a", "b"]]},
        {"ipc": {"value": "AAAA"}},
        {"ipc": {"other": "AAAA"}},
        {"unknown": 1},
    ],
)
def test_a_footer_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    assert read(_with_footer())[1].num_rows == 1
    with pytest.raises(DamagedError, match="damaged"):
        read(_with_footer(**changes))


def test_a_newer_format_is_not_damage() -> None:
    with pytest.raises(DamagedError, match=r"newer Snapline \(format 7, this one reads up to 1\); upgrade"):
        describe(_with_footer(version=7, unknown=[1]))


def test_other_parquet_is_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(_values([1]), sink)
    with pytest.raises(DamagedError, match="not a state file of Snapline"):
        read(sink)


def test_every_cut_is_noticed_and_no_altered_byte_raises_anything_else() -> None:
    data = _file(_info(StateKind.VALUE), _values([1, 2], value=["a", "b"])).getvalue()
    for position in range(len(data)):
        with pytest.raises(DamagedError):
            read(io.BytesIO(data[:position]))
        altered = bytearray(data)
        altered[position] ^= 0x41
        try:
            read(io.BytesIO(altered))
        except DamagedError:
            continue


def test_every_altered_byte_of_a_page_is_noticed() -> None:
    table = _values([1, 2], value=[b"some bytes of a value", b"some more bytes of another"])
    data = _file(_info(StateKind.VALUE), table).getvalue()
    for position in (data.index(b"bytes of a value"), data.index(b"more bytes")):
        altered = bytearray(data)
        altered[position] ^= 1
        with pytest.raises(DamagedError, match="CRC checksum"):
            read(io.BytesIO(altered))


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), StorageError("cannot be read: no network")])
def test_a_machine_that_fails_is_not_damage(error: Exception) -> None:
    class Broken(io.RawIOBase):
        def readinto(self, _: Any) -> int:
            raise error

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            return 100 if whence else offset

    with pytest.raises(StorageError, match="cannot be read") as caught:
        read(io.BufferedReader(Broken()))
    assert not isinstance(caught.value, DamagedError)
