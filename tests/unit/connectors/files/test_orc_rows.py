from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from snapline.connectors.files.file_formats import infer_schema, open_rows
from snapline.errors import UserCodeError

SCHEMA = pa.schema([("s", pa.string()), ("id", pa.int64())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = pa.table({"id": list(range(70_000)), "s": [str(n) * 20 for n in range(70_000)], "x": [0.5] * 70_000})
    pyarrow.orc.write_table(table, tmp_path / "rows.orc", stripe_size=4096)
    return str(tmp_path / "rows.orc")


def test_stripes_are_read_from_any_position(path: str) -> None:
    rows = open_rows(path, "orc", SCHEMA)
    found: list[int] = []
    positions = [0]
    while isinstance(batch := rows.read(), pa.RecordBatch):
        assert batch.schema == SCHEMA
        found += batch.column("id").to_pylist()
        positions.append(rows.position)
    assert found == list(range(70_000))
    assert len(positions) > 2, "there must be several stripes"
    again = open_rows(path, "orc", SCHEMA, None, positions[-2]).read()
    assert isinstance(again, pa.RecordBatch)
    assert again.column("id").to_pylist() == found[-again.num_rows :]
    rows.close()


def test_a_column_that_is_not_there_is_named(path: str) -> None:
    assert infer_schema(path, "orc").names == ["id", "s", "x"]
    with pytest.raises(UserCodeError, match="no column 'more'"):
        open_rows(path, "orc", pa.schema([("more", pa.int64())]))
