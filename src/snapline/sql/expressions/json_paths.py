"""Parts of JSON texts by a path, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.json_columns import read_objects
from snapline.sql.expressions.json_documents import Json, JsonError, Number, members, parsed_for_path
from snapline.sql.expressions.json_write import json_text
from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.plans.trees import Expression

_EVERY: Final = "*"


class _Member(str):
    """A step to a member of an object."""

    __slots__ = ()


_Step: TypeAlias = _Member | int | str
"""A member, an index, `*` in brackets as `_EVERY`, or `.*`, which nothing has."""

_STEP = re.compile(
    r"""(?P<dead>\.\*|\['\*'\])
        |\.(?P<name>[^.\[]+)
        |\['(?P<quoted>[^'?]+)'\]
        |\[(?P<every>\*)\]
        |\[(?P<index>\d+)\]""",
    re.VERBOSE,
)


class _Style(Enum):
    """How values are written: a text alone without quotes; as JSON; or as JSON with arrays taken apart."""

    RAW = 0
    QUOTED = 1
    FLAT = 2


@lru_cache(maxsize=1024)
def path_steps(path: str) -> tuple[_Step, ...] | None:
    """The steps of a path, or None if it is none."""
    if not path.startswith("$"):
        return None
    steps: list[_Step] = []
    position = 1
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            return None
        name = found["name"] or found["quoted"]
        if found["dead"]:
            steps.append(".*")
        elif name:
            steps.append(_Member(name))
        else:
            steps.append(_EVERY if found["every"] else int(found["index"]))
        position = found.end()
    return tuple(steps)


@kernel("GetJsonObject")
def _get_json_object(_expression: Expression) -> Kernel:
    by_row = rowwise(json_part, pa.string())
    order = list(_MEMBER_TYPES)

    def run(values: Sequence[Value], rows: int) -> Value:
        texts, path = values
        if not isinstance(texts, pa.Array) or not isinstance(path, pa.Scalar) or not path.is_valid:
            return by_row(values, rows)
        steps = path_steps(path.as_py()) or ()
        if not steps or not all(isinstance(step, _Member) for step in steps):
            return by_row(values, rows)
        for type in order:
            found = _members_of_objects(texts, [str(step) for step in steps], type)
            if found is not None:
                order.sort(key=lambda other: other != type)  # the next batch is probably like this one
                return found
        return by_row(values, rows)

    return run


_MEMBER_TYPES: Final = (pa.string(), pa.int64(), pa.bool_())
"""Types of JSON values whose texts are as in the document."""


def _members_of_objects(texts: pa.Array, names: list[str], type: pa.DataType) -> pa.Array | None:
    """The texts of the members of this type that the names lead to; None if some text has another there."""
    wanted = type
    for name in reversed(names):
        wanted = pa.struct([(name, wanted)])
    found = read_objects(texts, wanted)
    if found is None:
        return None
    for name in names:
        found = pc.struct_field(found, name)
    return pc.cast(found, pa.string())


def json_part(text: str, path: str) -> str | None:
    """What a path leads to, or None: strings without quotes, all else as JSON."""
    steps = path_steps(path)
    if steps is None:
        return None
    try:
        document = parsed_for_path(text)
    except JsonError:
        return None
    written, found = _written(document, steps, _Style.RAW)
    return "".join(written) if found else None


def _written(value: Json, steps: tuple[_Step, ...], style: _Style) -> tuple[list[str], bool]:
    """The values that the steps lead to, as texts, and whether there are any."""
    if not steps:
        return _whole(value, style)
    step = steps[0]
    if isinstance(step, _Member):
        found = [item for name, item in members(value) if name == step] if isinstance(value, dict) else []
        tried = (_written(item, steps[1:], style) for item in found if item is not None)
        return next((written for written in tried if written[1]), ([], False))
    if not isinstance(value, list) or step == ".*":
        return [], False
    if isinstance(step, int):
        if step >= len(value):
            return [], False
        following = steps[1:]
        return _written(value[step], following, _Style.QUOTED if following[:1] == (_EVERY,) else style)
    return _every(value, steps, style)


def _whole(value: Json, style: _Style) -> tuple[list[str], bool]:
    if style is _Style.RAW and isinstance(value, str) and not isinstance(value, Number):
        return [value], True
    if style is _Style.FLAT and isinstance(value, list):
        parts = [_whole(element, style) for element in value]
        return [text for texts, _ in parts for text in texts], any(found for _, found in parts)
    return [json_text(value)], True


def _every(value: list[Json], steps: tuple[_Step, ...], style: _Style) -> tuple[list[str], bool]:
    if steps[:2] == (_EVERY, _EVERY):
        parts = [_written(element, steps[2:], _Style.FLAT) for element in value]
        return [_array(parts)], any(found for _, found in parts)
    if style is _Style.QUOTED:
        parts = [_written(element, steps[1:], style) for element in value]
        return [_array(parts)], any(found for _, found in parts)
    inner = _Style.QUOTED if style is _Style.RAW else _Style.FLAT
    parts = [_written(element, steps[1:], inner) for element in value]
    count = sum(found for _, found in parts)
    if not count:
        return [], False
    return [_array(parts) if count > 1 else _array(parts)[1:-1]], True


def _array(parts: list[tuple[list[str], bool]]) -> str:
    return "[" + ",".join(text for texts, _ in parts for text in texts) + "]"


@kernel("LengthOfJsonArray")
def _array_length(_expression: Expression) -> Kernel:
    def length(text: str) -> int | None:
        document = _document(text)
        return len(document) if isinstance(document, list) else None

    return rowwise(length, pa.int32())


@kernel("JsonObjectKeys")
def _object_keys(expression: Expression) -> Kernel:
    def keys(text: str) -> list[str] | None:
        document = _document(text)
        return [name for name, _ in members(document)] if isinstance(document, dict) else None

    return rowwise(keys, expression.type)


def _document(text: str) -> Any:
    try:
        return parsed_for_path(text)
    except JsonError:
        return None
