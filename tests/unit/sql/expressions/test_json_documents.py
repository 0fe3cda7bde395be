from __future__ import annotations

import pytest

from snapline.sql.expressions.json_documents import JsonError, Number, Repetitive, members, parsed, parsed_for_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (' {"a" : [1, "x", null, true]} rest', {"a": ["1", "x", None, True]}),
        ("{'a':'b\\'c'}", {"a": "b'c"}),
        ('{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        ("[]", []),
        ("{}", {}),
        ("[1.50,-0,1e5]", ["1.50", "-0", "1e5"]),
        ("['x', NaN]", ["x", "NaN"]),
    ],
)
def test_values(text: str, expected: object) -> None:
    assert parsed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{a:1}",
        '{"a":01}',
        "[1,]",
        "[1,2",
        '{"a":+1}',
        '{"a":.5}',
        '{"a":tru}',
        '{"a":"\\x"}',
        '{"a":1,}',
        "'a",
    ],
)
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(JsonError):
        parsed(text)
    with pytest.raises(JsonError):
        parsed_for_path(text)


def test_numbers_keep_their_text() -> None:
    assert [number.is_integer for number in parsed("[1, -20, 1.0, 1e2]")] == [True, True, False, False]
    assert isinstance(parsed("12"), Number)


def test_members_of_the_same_name_are_kept() -> None:
    found = parsed('{"a":1,"b":2,"a":3}')
    assert isinstance(found, Repetitive)
    assert found["a"] == "3"
    assert list(members(found)) == [("a", "1"), ("b", "2"), ("a", "3")]


def test_paths_read_control_characters_but_no_nan() -> None:
    assert parsed_for_path('{"a":"x\ty"}') == {"a": "x\ty"}
    assert parsed_for_path("{'a':'x\ty'}") == {"a": "x\ty"}
    with pytest.raises(JsonError):
        parsed('{"a":"x\ty"}')
    with pytest.raises(JsonError):
        parsed_for_path('{"a":NaN}')


def test_depth_is_limited() -> None:
    with pytest.raises(JsonError, match="levels"):
        parsed("[" * 100_000)


@pytest.mark.parametrize("text", [" nulll", "null_", "true1", "1x", "1,2"])
def test_words_and_numbers_must_end(text: str) -> None:
    with pytest.raises(JsonError):
        parsed(text)
