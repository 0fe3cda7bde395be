"""Functions with `LIKE` patterns and regular expressions, which mean what Java's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.java_pattern_syntax import PatternError
from snapline.sql.expressions.java_patterns import Translation, from_units, in_units, matches, translated
from snapline.sql.expressions.java_replacements import Replacement, ReplacementError, in_re2, replacement_parts
from snapline.sql.expressions.like_patterns import like_pattern
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.expressions.values import numbers, valid
from snapline.sql.plans.trees import Expression

_UNCHECKED: Final = frozenset({"split", "str_to_map"})
"""Functions in which Spark leaves the error of a pattern as Java raises it."""


def _pattern(function: str, text: str) -> Translation:
    try:
        return translated(text)
    except PatternError as error:
        if function in _UNCHECKED:
            raise SparkError("PatternSyntaxException", f"{error}: {text!r}") from error
        message = f"The value of parameter(s) `regexp` in `{function}` is invalid: {text!r}. {error}"
        raise SparkError("INVALID_PARAMETER_VALUE.PATTERN", message) from error


def _check_supported(*patterns: Expression) -> None:
    """Raises `UnsupportedError` for constants with what Python's expressions do not have."""
    for pattern in patterns:
        if pattern.kind == "Literal" and pattern.arguments["value"] is not None:
            with suppress(PatternError):  # Spark raises this only for rows.
                translated(pattern.arguments["value"])


def _is_column(text: Value, *constants: Value) -> bool:
    """Whether there are texts in a column, and the other values are constants."""
    is_constant = all(isinstance(value, pa.Scalar) and value.is_valid for value in constants)
    return is_constant and isinstance(text, pa.Array) and text.null_count < len(text)


@kernel("Like")
def _like(expression: Expression) -> Kernel:
    escape = expression.arguments.get("escapeChar", "\\")
    by_row = rowwise(lambda text, pattern: like_pattern(pattern, escape).matches(text), pa.bool_())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, pattern = values
        if _is_column(text, pattern):
            return like_pattern(pattern.as_py(), escape).test(text)
        return by_row(values, rows)

    return run


def _like_many(is_all: bool, is_negated: bool) -> Callable[[Expression], Kernel]:
    def maker(expression: Expression) -> Kernel:
        given = expression.arguments["patterns"]
        patterns = [like_pattern(pattern, "\\") for pattern in given if pattern is not None]
        has_null = len(patterns) < len(given)

        def test(text: str) -> bool | None:
            found = (pattern.matches(text) != is_negated for pattern in patterns)
            if is_all:
                return (None if has_null else True) if all(found) else False
            return True if any(found) else (None if has_null else False)

        return rowwise(test, pa.bool_())

    return maker


kernel("LikeAll")(_like_many(is_all=True, is_negated=False))
kernel("NotLikeAll")(_like_many(is_all=True, is_negated=True))
kernel("LikeAny")(_like_many(is_all=False, is_negated=False))
kernel("NotLikeAny")(_like_many(is_all=False, is_negated=True))


@kernel("RLike")
def _rlike(expression: Expression) -> Kernel:
    _check_supported(expression.children[1])

    def test(text: str, pattern: str) -> bool:
        return _pattern("rlike", pattern).python.search(text) is not None

    by_row = rowwise(test, pa.bool_())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, pattern = values
        if _is_column(text, pattern):
            expression_in_re2 = _pattern("rlike", pattern.as_py()).re2_test
            if expression_in_re2 is not None:
                return pc.match_substring_regex(text, expression_in_re2)
        return by_row(values, rows)

    return run


def _check_group(function: str, translation: Translation, index: int) -> None:
    if not 0 <= index <= translation.python.groups:
        raise SparkError(
            "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX",
            f"The value of parameter(s) `idx` in `{function}` is invalid: expects group index between 0 and "
            f"{translation.python.groups}, but got {index}.",
        )


@kernel("RegExpExtract")
def _extract(expression: Expression) -> Kernel:
    _check_supported(expression.children[1])

    def extracted(text: str, pattern: str, index: int) -> str:
        translation = _pattern("regexp_extract", pattern)
        found = translation.python.search(text)
        if found is None:
            return ""
        _check_group("regexp_extract", translation, index)
        return found.group(index) or ""

    by_row = rowwise(extracted, pa.string())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, pattern, index = values
        if _is_column(text, pattern, index):
            translation = _pattern("regexp_extract", pattern.as_py())
            if translation.re2 is not None and 0 <= index.as_py() <= translation.python.groups:
                return _extracted(text, _with_names(translation), index.as_py())
        return by_row(values, rows)

    return run


def _with_names(translation: Translation) -> str:
    """The expression with all groups named, the whole as the first, as Arrow wants them."""
    assert translation.re2 is not None
    parts = translation.re2.replace("(?", "\0").split("(")
    named = parts[0] + "".join(f"(?P<g{number}>{part}" for number, part in enumerate(parts[1:], 1))
    return f"(?P<g0>{named})".replace("\0", "(?")


def _extracted(text: pa.Array, expression: str, index: int) -> pa.Array:
    found = pc.struct_field(pc.extract_regex(text, expression), [index])
    return pc.if_else(text.is_valid(), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


@kernel("RegExpExtractAll")
def _extract_all(expression: Expression) -> Kernel:
    _check_supported(expression.children[1])

    def extracted(text: str, pattern: str, index: int) -> list[str]:
        translation = _pattern("regexp_extract_all", pattern)
        found = list(matches(translation, in_units(translation, text)))
        if found:
            _check_group("regexp_extract_all", translation, index)
        return [from_units(match.group(index) or "") for match in found]

    return rowwise(extracted, expression.type)


@kernel("RegExpInStr")
def _instr(expression: Expression) -> Kernel:
    _check_supported(expression.children[1])

    def position(text: str, pattern: str, _index: int) -> int:
        found = _pattern("regexp_instr", pattern).python.search(text)
        return 0 if found is None else found.start() + 1

    return rowwise(position, pa.int32())


@kernel("RegExpReplace")
def _replace(expression: Expression) -> Kernel:
    _check_supported(expression.children[1])

    def replaced(text: str, pattern: str, new: str, position: int) -> str:
        translation = _pattern("regexp_replace", pattern)
        start = position - 1
        if start and start >= len(text):
            return text
        try:
            return text[:start] + _replaced(translation, text[start:], replacement_parts(new, translation.python))
        except ReplacementError as error:
            message = f"Could not perform regexp_replace for {text!r}, {pattern!r}, {new!r}, {position}. {error}"
            raise SparkError("INVALID_REGEXP_REPLACE", message) from error

    by_row = rowwise(replaced, pa.string())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, pattern, new, position = values
        if _is_column(text, pattern, new, position) and position.as_py() == 1:
            translation = _pattern("regexp_replace", pattern.as_py())
            rewritten = _in_re2(translation, new.as_py())
            if rewritten is not None:
                return pc.replace_substring_regex(text, translation.re2, rewritten)
        return by_row(values, rows)

    return run


def _in_re2(translation: Translation, new: str) -> str | None:
    """The replacement for RE2, if that does the same as Java for this expression."""
    if translation.re2 is None or not translation.is_never_empty:
        return None
    try:
        return in_re2(replacement_parts(new, translation.python)())
    except ReplacementError:
        return None


def _replaced(translation: Translation, text: str, parts: Callable[[], Replacement]) -> str:
    pieces: list[str] = []
    position = 0
    text = in_units(translation, text)
    for match in matches(translation, text):
        pieces.append(text[position : match.start()])
        pieces += [part if isinstance(part, str) else match.group(part) or "" for part in parts()]
        position = match.end()
    return from_units("".join((*pieces, text[position:])))


@kernel("StringSplit")
def _split(expression: Expression) -> Kernel:
    _check_supported(expression.children[1])

    def split(text: str, pattern: str, limit: int) -> list[str]:
        if text and not pattern:
            return list(text) if not 0 < limit < len(text) else [*text[: limit - 1], text[limit - 1 :]]
        return java_split(_pattern("split", pattern), text, limit)

    by_row = rowwise(split, expression.type)

    def run(values: Sequence[Value], rows: int) -> Value:
        text, pattern, limit = values
        if _is_column(text, pattern, limit) and pattern.as_py():
            translation = _pattern("split", pattern.as_py())
            most = limit.as_py() - 1 if limit.as_py() > 0 else None
            if _is_one_character(pattern.as_py()):
                return pc.split_pattern(text, pattern.as_py(), max_splits=most).cast(expression.type)
            # Arrow takes the start of each part for the start of the text.
            if translation.re2 is not None and translation.is_never_empty and r"\A" not in translation.re2:
                return pc.split_pattern_regex(text, translation.re2, max_splits=most).cast(expression.type)
        return by_row(values, rows)

    return run


def java_split(translation: Translation, text: str, limit: int) -> list[str]:
    """The parts between matches, at most `limit` if that is above 0; an empty match at the start divides nothing."""
    parts: list[str] = []
    position = 0
    text = in_units(translation, text)
    for match in matches(translation, text):
        if 0 < limit <= len(parts) + 1:
            break
        if match.end() == 0:
            continue
        parts.append(from_units(text[position : match.start()]))
        position = match.end()
    return [*parts, from_units(text[position:])]


@kernel("StringToMap")
def _string_to_map(expression: Expression) -> Kernel:
    _check_supported(*expression.children[1:])

    def pairs(text: str, between_pairs: str, within_pair: str) -> list[tuple[str, str | None]]:
        found: dict[str, str | None] = {}
        for entry in _split_parts(text, between_pairs, -1):
            key, *value = _split_parts(entry, within_pair, 2)
            if key in found:
                raise SparkError("DUPLICATED_MAP_KEY", f"Duplicate map key {key} was found.")
            found[key] = value[0] if value else None
        return list(found.items())

    by_row = rowwise(pairs, expression.type)

    def run(values: Sequence[Value], rows: int) -> Value:
        text, between_pairs, within_pair = values
        if _is_column(text, between_pairs, within_pair):
            separators = between_pairs.as_py(), within_pair.as_py()
            if all(map(_is_one_character, separators)):
                found = _maps_of_texts(text, *separators, expression.type)
                if found is not None:
                    return found
        return by_row(values, rows)

    return run


def _maps_of_texts(texts: pa.Array, between_pairs: str, within_pair: str, type: pa.DataType) -> pa.Array | None:
    """The pairs in texts, by single characters; None if a key occurs twice in a text."""
    entries = pc.split_pattern(texts, between_pairs)
    parts = pc.split_pattern(pc.list_flatten(entries), within_pair, max_splits=1)
    sizes = np.diff(parts.offsets.to_numpy())
    firsts = parts.offsets.to_numpy()[:-1]
    keys = parts.values.take(pa.array(firsts))
    items = parts.values.take(pa.array(firsts + 1, mask=sizes < 2))
    encoded = keys.dictionary_encode()
    owners = pc.list_parent_indices(entries).to_numpy().astype(np.int64)
    marks = owners * len(encoded.dictionary) + encoded.indices.to_numpy()
    if len(np.unique(marks)) < len(marks):
        return None
    counts = numbers(pc.list_value_length(entries))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    mask = pa.array(~valid(texts)) if texts.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, type=type, mask=mask)


def _split_parts(text: str, pattern: str, limit: int) -> list[str]:
    if _is_one_character(pattern):
        return text.split(pattern, limit - 1 if limit > 0 else -1)
    return java_split(_pattern("str_to_map", pattern), text, limit)


def _is_one_character(pattern: str) -> bool:
    """Whether an expression matches itself and nothing else."""
    return len(pattern) == 1 and pattern not in "\\.[]{}()*+?^$|"
