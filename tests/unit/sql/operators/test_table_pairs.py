from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.operators.changes.changes import with_change
from snapline.operators.changes.changing_join import JoinKind
from snapline.operators.changes.key_layout import KeyLayout
from snapline.sql.operators import table_pairs
from snapline.sql.operators.table_pairs import TablePairs
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute

V, LIMIT = Attribute(1, "v", pa.int64()), Attribute(2, "limit", pa.int64())
ROWS = pa.schema([("v", pa.int64())])
BOTH = pa.schema([("v", pa.int64()), ("limit", pa.int64())])
TABLE = pa.RecordBatch.from_pydict({"limit": [1, 3, None]})
ABOVE = kit.greater(reference(V), reference(LIMIT))


def joined(kind: JoinKind, table: pa.RecordBatch = TABLE, condition: Any = ABOVE) -> Counter[tuple[Any, ...]]:
    schema = ROWS if kind in (JoinKind.SEMI, JoinKind.ANTI) else BOTH
    operator = TablePairs(kind, table, condition, (V, LIMIT), schema)
    with running(operator, [KeyLayout(ROWS, [])]) as one:
        for operator_copy in one._operators:
            operator_copy.process(batch_of(ROWS, [(0,), (2,), (5,), (None,)]), 0)
        one._apply()
        return one.result


@pytest.mark.parametrize("pairs", [1, 1 << 18])
def test_each_kind_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    monkeypatch.setattr(table_pairs, "_PAIRS", pairs)
    assert joined(JoinKind.INNER) == Counter([(2, 1), (5, 1), (5, 3)])
    assert joined(JoinKind.LEFT) == Counter([(2, 1), (5, 1), (5, 3), (0, None), (None, None)])
    assert joined(JoinKind.SEMI) == Counter([(2,), (5,)])
    assert joined(JoinKind.ANTI) == Counter([(0,), (None,)])


def test_an_empty_table() -> None:
    empty = TABLE.slice(0, 0)
    assert joined(JoinKind.INNER, empty) == Counter()
    assert joined(JoinKind.LEFT, empty) == Counter([(value, None) for value in (0, 2, 5, None)])
    assert len(joined(JoinKind.ANTI, empty)) == 4


def test_without_a_condition_all_pairs_meet() -> None:
    assert sum(joined(JoinKind.INNER, condition=None).values()) == 12


def test_the_kind_of_a_change_goes_along() -> None:
    schema = with_change(ROWS)
    operator = TablePairs(JoinKind.INNER, TABLE, ABOVE, (V, LIMIT), with_change(BOTH))
    with running(operator, [KeyLayout(schema, [])]) as one:
        for each in one._operators:
            each.process(batch_of(schema, [(5, 0), (2, 0), (5, 3)]), 0)
        one._apply()
        assert one.result == Counter([(2, 1)])
