from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
import pytest
from tests.expression_kit import call, column, values

from snapline.sql.expressions.json_times import TimeTexts
from snapline.sql.expressions.registry import UnsupportedError

INSTANT, LOCAL, DAY = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()
TEXT = pa.string()


def _from_json(type: pa.DataType, texts: Sequence[str | None], **options: str) -> list[object]:
    expression = call(
        "JsonToStructs", pa.struct([("a", type)]), column(0, TEXT), options=options, timeZoneId="Asia/Tokyo"
    )
    return [None if row is None else row["a"] for row in values(expression, pa.array(texts, TEXT))]


def _utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc, arg-type]


def test_instants_with_an_offset_and_in_the_zone_of_the_session() -> None:
    offset = ['{"a":"2026-03-29T02:30:00Z"}', '{"a":"2026-03-29T02:30:00.5+02:00"}', None, "{}"]
    assert _from_json(INSTANT, offset) == [_utc(2026, 3, 29, 2, 30), _utc(2026, 3, 29, 0, 30, 0, 500000), None, None]
    assert _from_json(INSTANT, ['{"a":"2026-03-29 09:00:00"}']) == [_utc(2026, 3, 29)]


def test_mixed_and_wrong_texts_are_read_one_by_one() -> None:
    mixed = [
        '{"a":"2026-03-29T02:30:00Z"}',
        '{"a":"2026-03-29 09:00:00"}',
        '{"a":7}',
        '{"a":"x"}',
        '{"a":"2026-02-30"}',
    ]
    expected = [_utc(2026, 3, 29, 2, 30), _utc(2026, 3, 29), _utc(1970, 1, 1, 0, 0, 7), None, None]
    assert _from_json(INSTANT, mixed) == expected


def test_local_times_have_no_zone() -> None:
    texts = ['{"a":"2026-03-29T02:30:00"}', '{"a":"2026-03-29T02:30:00Z"}']
    assert _from_json(LOCAL, texts) == [dt.datetime(2026, 3, 29, 2, 30), None]


def test_dates_by_a_pattern() -> None:
    texts = ['{"a":"29/03/2026"}', '{"a":"2026-03-29"}', '{"a":null}']
    assert _from_json(DAY, texts[:1], dateFormat="dd/MM/yyyy") == [dt.date(2026, 3, 29)]
    assert _from_json(DAY, texts, dateFormat="dd/MM/yyyy") == [dt.date(2026, 3, 29), None, None]
    assert _from_json(DAY, ['{"a":"2026-03-29"}', '{"a":"2026-13-29"}']) == [dt.date(2026, 3, 29), None]


def test_instants_by_a_pattern_and_written_by_one() -> None:
    texts = ['{"a":"29.03.2026 09:00"}', None]
    assert _from_json(INSTANT, texts, timestampFormat="dd.MM.yyyy HH:mm") == [_utc(2026, 3, 29), None]
    struct = pa.struct([("a", INSTANT), ("b", DAY)])
    options = {"timestampFormat": "HH:mm", "dateFormat": "yy"}
    written = call("StructsToJson", TEXT, column(0, struct), options=options, timeZoneId="Asia/Tokyo")
    rows = pa.array([{"a": _utc(2026, 3, 29), "b": dt.date(2026, 1, 1)}, {"a": None, "b": None}, None], struct)
    assert values(written, rows) == ['{"a":"09:00","b":"26"}', "{}", None]


def test_unknown_letters_are_refused_at_once() -> None:
    with pytest.raises(UnsupportedError, match="zzzz"):
        TimeTexts("UTC", {"timestampformat": "zzzz"})


def test_days_as_numbers_in_texts() -> None:
    assert _from_json(pa.date32(), ['{"a":"1"}', '{"a":"99999999999"}']) == [dt.date(1970, 1, 2), None]
    with pytest.raises(UnsupportedError, match="before 1582"):
        _from_json(pa.date32(), ['{"a":"-99999999"}'])
