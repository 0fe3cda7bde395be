"""`deduplicate` and `top_n`: their result columns, and what they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError

LEFT = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("user", pa.dictionary(pa.int32(), pa.string())),
        pa.field("price", pa.int64(), nullable=False),
    ]
)
PLAIN = sl.sources.Generate(lambda start, count: None, schema=LEFT)


def keyed() -> sl.KeyedStream:
    return sl.Job("updates").source(PLAIN, "rows").key_by("user")


def test_the_rows_of_one_for_each_key() -> None:
    left = keyed()
    assert left.deduplicate(uid="first").schema == LEFT
    assert left.deduplicate(keep="last").schema == LEFT
    top = left.top_n(3, by=["price", "at"], descending=[True, False], rank="place", uid="top").schema
    assert top.names == ["at", "user", "price", "place"]
    assert top.field("user").type == pa.string()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows: rows.deduplicate(keep="newest"), "keep='newest'; use 'first' or 'last'"),
        (lambda rows: rows.deduplicate(by="at"), "by='at' goes with keep='last'"),
        (lambda rows: rows.deduplicate(keep="last", by="att"), "Did you mean 'at'?"),
        (lambda rows: rows.deduplicate(keep="last", by="user"), "which has no order"),
        (lambda rows: rows.deduplicate(keep="last", ttl="1h"), "leave ttl= out"),
        (lambda rows: rows.top_n(0, by="price"), "from 1 to 10000"),
        (lambda rows: rows.top_n(1, by=[]), "by= is empty"),
        (lambda rows: rows.top_n(1, by="prise"), "Did you mean 'price'?"),
        (lambda rows: rows._job.source(PLAIN, "b").key_by("at").top_n(1, by="at"), "sort by others"),
        (lambda rows: rows.top_n(1, by="price", descending=[True, False]), "for 1 columns"),
        (lambda rows: rows.top_n(1, by="price", rank="at"), "rank='at'; give a column name that is not taken"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        call(keyed())


def test_only_what_is_remembered_needs_state() -> None:
    for options, has_state in (({}, True), ({"keep": "last"}, False), ({"keep": "last", "by": "price"}, True)):
        stream = keyed().deduplicate(uid="one", **options)  # type: ignore[arg-type]
        assert stream._inputs[0].node.has_state is has_state
