from __future__ import annotations

import pytest

from snapline.sql.expressions.java_text import java_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("\u00e9\U0001f600".encode(), "\u00e9\U0001f600"),
        (b"a\xffb", "a\ufffdb"),
        (b"\xc0\x80z", "\ufffd\ufffdz"),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
    ],
)
def test_what_is_no_utf8_is_replaced_as_java_does(data: bytes, text: str) -> None:
    assert java_text(data) == text
