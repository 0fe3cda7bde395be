"""Fields of scripts: each is checked, and errors say where and what to use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from snapline.devtools.replay.script_fields import Fields, NotUnderstoodError, shown


def test_fields_of_every_kind() -> None:
    fields = Fields({"n": 3, "none": None, "on": True, "word": "b", "list": ["x", 1], "id": 1, "note": "ignored"})
    assert fields.integer("n", minimum=3, maximum=3) == 3
    assert fields.optional_integer("none", 7) is None
    assert fields.flag("on", False) is True
    assert fields.choice("word", {"a": 1, "b": 2}) == 2
    assert fields.array("list") == [("list[0]", "x"), ("list[1]", 1)]
    assert fields.text("absent", "default") == "default"
    assert "other" not in fields
    fields.done()


@pytest.mark.parametrize(
    ("read", "complaint"),
    [
        (lambda fields: fields.integer("absent"), r"^at.absent is missing; use a whole number from 0 on$"),
        (lambda fields: fields.integer("n", maximum=2), r"^at.n is 3; use a whole number from 0 to 2$"),
        (lambda fields: fields.integer("on"), r"^at.on is true; use a whole number"),
        (lambda fields: fields.optional_integer("word", None), r'^at.word is "b"; use .* from 0 on or null$'),
        (lambda fields: fields.flag("n", False), r"^at.n is 3; use true or false$"),
        (lambda fields: fields.text("n"), r"^at.n is 3; use a string$"),
        (lambda fields: fields.choice("word", {"a": 1, "c": 2}), r'^at.word is "b"; use one of a, c$'),
        (lambda fields: fields.array("word"), r'^at.word is "b"; use an array$'),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(read: Callable[[Fields], Any], complaint: str) -> None:
    with pytest.raises(NotUnderstoodError, match=complaint):
        read(Fields({"n": 3, "on": True, "word": "b"}, "at"))


def test_fields_that_were_not_read_are_refused() -> None:
    fields = Fields({"a": 1, "b": 2, "id": 3}, "at")
    fields.integer("a")
    with pytest.raises(NotUnderstoodError, match=r'there is no field "at.b", "at.id" here; there are a$'):
        fields.done()


def test_only_an_object_has_fields() -> None:
    with pytest.raises(NotUnderstoodError, match=r"^the line is \[\]; use a JSON object$"):
        Fields([])


def test_long_values_are_shortened() -> None:
    assert shown("x" * 100) == '"' + "x" * 59 + "..."
