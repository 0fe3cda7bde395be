"""The first rows of each key."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.limit_rows import LimitRows

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def test_the_first_rows_of_each_key_pass() -> None:
    layout = KeyLayout(SCHEMA, ["k"])
    operator = LimitRows(layout.schema(SCHEMA), layout.key_columns, 2)
    assert operator.output_schema == SCHEMA
    with running(operator, [layout]) as limit:
        limit.process(batch_of(SCHEMA, [("a", 1), (None, 2), ("a", 3), ("a", 4)]))
        limit.process(batch_of(SCHEMA, [("a", 5), (None, 6), (None, 7)]))
        assert limit.result == {("a", 1): 1, ("a", 3): 1, (None, 2): 1, (None, 6): 1}


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a changing input"):
        LimitRows(with_change(SCHEMA), ("k",), 1)
    with pytest.raises(ConfigurationError, match="at least 0, not -1"):
        LimitRows(SCHEMA, ("k",), -1)
