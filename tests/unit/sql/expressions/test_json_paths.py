"""Paths in JSON. Values as Spark should give them in ANSI mode; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import call, column, literal, values
from tests.text_kit import answer

from snapline.sql.expressions.json_paths import json_part

GIVES: Mapping[str, pa.DataType] = {
    "LengthOfJsonArray": pa.int32(),
    "JsonObjectKeys": pa.list_(pa.string()),
}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('GetJsonObject', ('{"a":"<\\u001f>"}', '$.*'), {}, None),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$[*][*]'), {}, None),
    ('GetJsonObject', ('{"a":1,"a":2}', '$.a[5]'), {}, None),
    ('GetJsonObject', ('{"a":[]}', '$[*]'), {}, None),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$.a.b[2].c'), {}, 'x'),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$.a[*]'), {}, None),
    ('GetJsonObject', ('{"a":"x\\ny"}', '$[0][*]'), {}, None),
    ('GetJsonObject', ('{"a":1.50,"b":1e5,"c":1e20,"d":-0,"e":12345678901234567890}', '$.a.b'), {}, None),
    ('GetJsonObject', ('{"a":"<\\u001f>"}', '$.c'), {}, None),
    ('GetJsonObject', ('"s"', '$.a[0][1].b'), {}, None),
    ('GetJsonObject', ('{"a":1}', '$[0]'), {}, None),
    ('GetJsonObject', ('{"a b":1,"c.d":2}', '$.a[0]'), {}, None),
    ('GetJsonObject', ('{"a":1,"a":2}', '$[*]'), {}, None),
    ('GetJsonObject', (' {"a" : [ 1 , "x" , null , true ] } ', '$['), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', '$.e'), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', '$[0][*]'), {}, None),
    ('GetJsonObject', ('{"a":"<\\u001f>"}', "$['a b']"), {}, None),
    ('GetJsonObject', ('{', '$.a.b[2].c'), {}, None),
    ('GetJsonObject', ('{"a":1} x', '$.a[*]'), {}, None),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$.*'), {}, None),
    ('GetJsonObject', ('{a:1}', '$.a'), {}, None),
    ('GetJsonObject', ('[{"a":1},{"a":null},{"b":2},{"a":"z"}]', '$[0]'), {}, '{"a":1}'),
    ('GetJsonObject', (' {"a" : [ 1 , "x" , null , true ] } ', "$['a b']"), {}, None),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$.a[*][0]'), {}, None),
    ('GetJsonObject', ('[1,2', '$[0]'), {}, None),
    ('GetJsonObject', ('{"a":null}', '$'), {}, '{"a":null}'),
    ('GetJsonObject', ('{"a":null}', '$.a[*]'), {}, None),
    ('GetJsonObject', ('{"a":01}', '$.a.b[2].c'), {}, None),
    ('GetJsonObject', ('{"a":null}', '$[*].a'), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', '$.a.b[2].c'), {}, None),
    ('GetJsonObject', ('[{"a":1},{"a":null},{"b":2},{"a":"z"}]', '$[-1]'), {}, None),
    ('GetJsonObject', ('{"a b":1,"c.d":2}', '$.'), {}, None),
    ('GetJsonObject', ('{"a b":1,"c.d":2}', 'a'), {}, None),
    ('GetJsonObject', ('{"a":01}', "$['a']"), {}, None),
    ('GetJsonObject', ('{"a":"\\u00e9\\ud83d\\ude00"}', '$.b'), {}, None),
    ('GetJsonObject', ('{"a":1.50,"b":1e5,"c":1e20,"d":-0,"e":12345678901234567890}', '$.a'), {}, '1.5'),
    ('GetJsonObject', ('{"a":NaN}', '$'), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', "$['a b']"), {}, None),
    ('GetJsonObject', ('{"a":1.50,"b":1e5,"c":1e20,"d":-0,"e":12345678901234567890}', '$.c.d'), {}, None),
    ('GetJsonObject', ('{"a":"\\x"}', '$[0]'), {}, None),
    ('GetJsonObject', ('{"a":1}', '$.a[0]'), {}, None),
    ('GetJsonObject', ('{"a":1}', '$.a[0][1].b'), {}, None),
    ('GetJsonObject', ('{"a":[[{"b":1},{"b":2}],[{"b":3}]]}', '$.c.d'), {}, None),
    ('GetJsonObject', ('{"a":"<\\u001f>"}', '$..a'), {}, None),
    ('GetJsonObject', (' {"a" : [ 1 , "x" , null , true ] } ', 'a'), {}, None),
    ('GetJsonObject', ('{"a":NaN}', "$['a']"), {}, None),
    ('GetJsonObject', ('{"a":NaN}', '$.a.b'), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', '$ .a'), {}, None),
    ('GetJsonObject', ('{"a":tru}', '$[*]'), {}, None),
    ('GetJsonObject', ('{"a":"/"}', '$[0]'), {}, None),
    ('GetJsonObject', ('{"a":"\\x"}', '$'), {}, None),
    ('GetJsonObject', ('{"a":"<\\u001f>"}', "$['a']"), {}, '<\x1f>'),
    ('GetJsonObject', ('{"a":"\\u00e9\\ud83d\\ude00"}', '$..a'), {}, None),
    ('GetJsonObject', ('{"a":1,"a":2}', '$[*][*]'), {}, None),
    ('GetJsonObject', ('{a:1}', '$.a[*][*].b'), {}, None),
    ('GetJsonObject', ('{"a":1}', '$.a[*][*].b'), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', '$.a.b'), {}, None),
    ('GetJsonObject', ('{"a":"/"}', '$.a[0]'), {}, None),
    ('GetJsonObject', ('{"a":[[{"b":1},{"b":2}],[{"b":3}]]}', '$[*].a'), {}, None),
    ('GetJsonObject', ('{"a":1,"a":2}', '$.e'), {}, None),
    ('GetJsonObject', ('', '$.a.b[2].c'), {}, None),
    ('GetJsonObject', ('{"a":1,"a":2}', '$.a[0]'), {}, None),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$..a'), {}, None),
    ('GetJsonObject', ('', '$.a[*]'), {}, None),
    ('GetJsonObject', ('"s"', '$.a[*][*].b'), {}, None),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$.a[*][*].b'), {}, None),
    ('GetJsonObject', ('{"a":1} x', '$[0]'), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', '$.c.d'), {}, None),
    ('GetJsonObject', ('{"a":"\\u00e9\\ud83d\\ude00"}', '$.a[*][0]'), {}, None),
    ('GetJsonObject', ('{"a":"<\\u001f>"}', '$[*]'), {}, None),
    ('GetJsonObject', (' {"a" : [ 1 , "x" , null , true ] } ', '$..a'), {}, None),
    ('GetJsonObject', ('{', '$.a[0][1].b'), {}, None),
    ('GetJsonObject', ('{"a":"\\u00e9\\ud83d\\ude00"}', '$[*]'), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', '$[-1]'), {}, None),
    ('GetJsonObject', ('{"a":"x\\ny"}', '$.*'), {}, None),
    ('GetJsonObject', ('{"a":[[{"b":1},{"b":2}],[{"b":3}]]}', '$.*'), {}, None),
    ('GetJsonObject', ('{"a":tru}', '$.a[0][1].b'), {}, None),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$.a'), {}, '{"b":[1,2,{"c":"x"}]}'),
    ('GetJsonObject', ('{', '$[0]'), {}, None),
    ('GetJsonObject', ('[1,2', '$.a[0]'), {}, None),
    ('GetJsonObject', ('{"a":"tab\there"}', '$.a[*].b'), {}, None),
    ('GetJsonObject', ('null', '$.a.b'), {}, None),
    ('GetJsonObject', ('{"a":1.}', '$.a[0][1].b'), {}, None),
    ('GetJsonObject', ('{"a":"<\\u001f>"}', '$.a[*]'), {}, None),
    ('GetJsonObject', (' {"a" : [ 1 , "x" , null , true ] } ', '$.e'), {}, None),
    ('GetJsonObject', ('{"a":1} x', '$.a.b[2].c'), {}, None),
    ('GetJsonObject', ('{"a":{"b":[1,2,{"c":"x"}]}}', '$[-1]'), {}, None),
    ('GetJsonObject', ('{"a b":1,"c.d":2}', '$[0][*]'), {}, None),
    ('GetJsonObject', ('{"a":"x\\ny"}', 'a'), {}, None),
    ('LengthOfJsonArray', ('{"a":null}',), {}, None),
    ('LengthOfJsonArray', ('{',), {}, None),
    ('LengthOfJsonArray', ('1',), {}, None),
    ('LengthOfJsonArray', ('{"a":"\\u00e9\\ud83d\\ude00"}',), {}, None),
    ('LengthOfJsonArray', ('{"a":.5}',), {}, None),
    ('LengthOfJsonArray', ('{"a":{"b":[1,2,{"c":"x"}]}}',), {}, None),
    ('LengthOfJsonArray', ('{"a":1.50,"b":1e5,"c":1e20,"d":-0,"e":12345678901234567890}',), {}, None),
    ('LengthOfJsonArray', ('{"a b":1,"c.d":2}',), {}, None),
    ('LengthOfJsonArray', ('{a:1}',), {}, None),
    ('LengthOfJsonArray', ('{"a":1} x',), {}, None),
    ('LengthOfJsonArray', ('{"a":"<\\u001f>"}',), {}, None),
    ('LengthOfJsonArray', ('{"a":tru}',), {}, None),
    ('LengthOfJsonArray', ('{"a":1}',), {}, None),
    ('LengthOfJsonArray', (' {"a" : [ 1 , "x" , null , true ] } ',), {}, None),
    ('LengthOfJsonArray', ('{"a":[]}',), {}, None),
    ('JsonObjectKeys', ('{"a":"/"}',), {}, ['a']),
    ('JsonObjectKeys', ('{a:1}',), {}, None),
    ('JsonObjectKeys', ('{"a":{"b":[1,2,{"c":"x"}]}}',), {}, ['a']),
    ('JsonObjectKeys', ('{"a":"<\\u001f>"}',), {}, ['a']),
    ('JsonObjectKeys', ('[{"a":1},{"a":null},{"b":2},{"a":"z"}]',), {}, None),
    ('JsonObjectKeys', ('1',), {}, None),
    ('JsonObjectKeys', ('{"a":+1}',), {}, None),
    ('JsonObjectKeys', ('{"a b":1,"c.d":2}',), {}, ['a b', 'c.d']),
    ('JsonObjectKeys', ('{"a":tru}',), {}, None),
    ('JsonObjectKeys', ('{"a":[]}',), {}, ['a']),
    ('JsonObjectKeys', ('[1,2,3]',), {}, None),
    ('JsonObjectKeys', ('"s"',), {}, None),
    ('JsonObjectKeys', ('{"a":1,"a":2}',), {}, ['a', 'a']),
    ('JsonObjectKeys', ("{'a':'b'}",), {}, ['a']),
    ('JsonObjectKeys', ('{"a":1} x',), {}, ['a']),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, values: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *values, gives=GIVES.get(kind), **arguments) == expected


@pytest.mark.parametrize(
    "documents",
    [
        ['{"a":"x"}', '{"a":null}', "{}", '{"b":1,"a":"\\u00e9"}'],
        ['{"a":1}', '{"a":-7,"b":"x"}'],
        ['{"a":true}', '{"a":false}'],
        ['{"a":1.50}', '{"a":"x"}', '{"a":{"b":"y"}}', "no json", '{"a":"x","a":"y"}'],
        ['{"a":-0}'],
        ['{"a":"x"} rest', "[1]"],
    ],
)
def test_whole_columns_are_read_as_single_texts_are(documents: list[str]) -> None:
    texts = pa.array([*documents, None])
    for path in ("$.a", "$.a.b"):
        expression = call("GetJsonObject", pa.string(), column(0, pa.string()), literal(path, pa.string()))
        expected = [*(json_part(document, path) for document in documents), None]
        assert values(expression, texts) == values(expression, texts) == expected
