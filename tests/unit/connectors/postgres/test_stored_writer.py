"""Rows that wait for their checkpoint: of an upsert, only the last of each key is kept."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.connectors.database.stored_rows import rows_of
from snapline.connectors.postgres import stored_writer
from snapline.connectors.postgres.row_changes import ColumnChoice, KeyedRows
from snapline.connectors.postgres.stored_writer import KeyedWriter
from snapline.contracts.sink import SinkContext


def test_many_values_of_few_keys_take_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_writer, "COMPACT_BYTES", 1 << 12)
    keyed = KeyedRows("call", ["k"], "gone")
    writer = KeyedWriter(ColumnChoice("call", None), keyed, SinkContext("job", "out", 0, 1, 1))
    sizes = []
    for number in range(200):
        keys = list(range(100))
        values, gone = [number * 100 + key for key in keys], [number == 150 and key == 7 for key in keys]
        writer.write(pa.record_batch({"k": keys, "v": values, "gone": gone}))
        sizes.append(writer._rows.size_bytes)
    assert max(sizes) < 3 * (1 << 12), "it does not grow with the number of rows"
    (prepared,) = writer.prepare(1)
    rows, deleted = keyed.last(pa.Table.from_batches(rows_of([prepared["rows"]])))
    assert dict(zip(*rows.to_pydict().values(), strict=True)) == {key: 19_900 + key for key in range(100)}
    assert deleted.num_rows == 0
    assert writer.prepare(2) == [], "all of it was taken"


def test_a_deletion_is_kept_until_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_writer, "COMPACT_BYTES", 1)
    keyed = KeyedRows("call", ["k"], "gone")
    writer = KeyedWriter(ColumnChoice("call", None), keyed, SinkContext("job", "out", 0, 1, 1))
    writer.write(pa.record_batch({"k": [1, 2], "v": [1, 2], "gone": [False, False]}))
    writer.write(pa.record_batch({"k": [1], "v": [0], "gone": [True]}))
    (prepared,) = writer.prepare(1)
    rows, deleted = keyed.last(pa.Table.from_batches(rows_of([prepared["rows"]])))
    assert (rows.to_pydict(), deleted.to_pydict()) == ({"k": [2], "v": [2]}, {"k": [1]})
