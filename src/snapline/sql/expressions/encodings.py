"""Texts as bytes and back: character sets, Base64, and whether bytes are UTF-8."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from snapline.sql.expressions.code_points import BLANKS
from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.plans.trees import Expression

_CHARSETS: Final = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16",
    "UTF-32": "utf-32-be",
}
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def _codec(function: str, charset: str) -> str:
    codec = _CHARSETS.get(charset.upper())
    if codec is None:
        message = f"The value of parameter(s) `charset` in `{function}` is invalid: expects one of the charsets "
        raise SparkError("INVALID_PARAMETER_VALUE.CHARSET", f"{message}{', '.join(_CHARSETS)}, but got {charset}.")
    return codec


def _errors(expression: Expression) -> str:
    return "replace" if expression.arguments.get("legacyErrorAction") else "strict"


def _malformed(function: str, charset: str) -> SparkError:
    message = f"Invalid value found when performing `{function}` with {charset}."
    return SparkError("MALFORMED_CHARACTER_CODING", message)


@kernel("Encode", reads_all=True)
def _encode(expression: Expression) -> Kernel:
    errors = _errors(expression)

    def encoded(text: str, charset: str) -> bytes:
        codec = _codec("encode", charset)
        if codec == "utf-16":
            return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
        try:
            return text.encode(codec, errors)
        except UnicodeEncodeError as error:
            raise _malformed("encode", charset) from error

    return rowwise(encoded, pa.binary())


@kernel("StringDecode", "Decode", reads_all=True)
def _decode(expression: Expression) -> Kernel:
    errors = _errors(expression)

    def decoded(data: bytes, charset: str) -> str:
        codec = _codec("decode", charset)
        if codec == "utf-16" and data[:2] not in (b"\xfe\xff", b"\xff\xfe"):
            codec = "utf-16-be"
        if codec == "utf-32-be" and data[:4] == b"\xff\xfe\x00\x00":
            codec = "utf-32-le"
        try:
            text = data.decode(codec, errors)
        except UnicodeDecodeError as error:
            raise _malformed("decode", charset) from error
        return text.removeprefix("\ufeff") if codec.startswith("utf-32") else text

    return rowwise(decoded, pa.string())


@kernel("Base64")
def _base64(expression: Expression) -> Kernel:
    in_lines = bool(expression.arguments.get("chunkBase64"))

    def encoded(data: bytes) -> str:
        text = base64.b64encode(data).decode()
        return "\r\n".join(text[n : n + 76] for n in range(0, len(text), 76)) if in_lines else text

    return rowwise(encoded, pa.string())


@kernel("UnBase64")
def _unbase64(expression: Expression) -> Kernel:
    fails = bool(expression.arguments.get("failOnError"))

    def decoded(text: str) -> bytes:
        if fails and not is_base64(text):
            message = f"The value {text!r} cannot be converted to BINARY because it is malformed as BASE64."
            raise SparkError("CONVERSION_INVALID_INPUT", message)
        try:
            return from_base64(text)
        except ValueError as error:
            raise SparkError("IllegalArgumentException", str(error)) from error

    return rowwise(decoded, pa.binary())


def from_base64(text: str) -> bytes:
    """The bytes, read as in MIME: all other characters are disregarded. Raises `ValueError`."""
    body, mark, after = text.partition("=")
    symbols = _NOT_BASE64.sub("", body)
    size = len(symbols) % 4
    if mark and (size == 0 or (size == 2 and not after.startswith("="))):
        raise ValueError("Input byte array has wrong 4-byte ending unit")
    if size == 1:
        raise ValueError("Last unit does not have enough valid bits")
    if _NOT_BASE64.sub("", after):
        raise ValueError("Input byte array has incorrect ending byte")
    return base64.b64decode(symbols + "=" * (-len(symbols) % 4))


def is_base64(text: str) -> bool:
    """Whether it is Base64, with blanks between the symbols and with or without padding at its end."""
    body = text.rstrip("=")
    padding = len(text) - len(body)
    symbols = body.translate(dict.fromkeys(map(ord, BLANKS)))
    if _NOT_BASE64.search(symbols) or padding > 2:
        return False
    if padding:
        return len(symbols) % 4 >= 2 and (len(symbols) + padding) % 4 == 0 and body == body.rstrip(BLANKS)
    return len(symbols) % 4 != 1


@kernel("Base32")
def _base32(_expression: Expression) -> Kernel:
    return rowwise(lambda data: base64.b32encode(data).decode(), pa.string())


@kernel("IsValidUTF8")
def _is_valid_utf8(_expression: Expression) -> Kernel:
    return _of_bytes(_is_utf8, pa.bool_())


@kernel("MakeValidUTF8")
def _make_valid_utf8(_expression: Expression) -> Kernel:
    return _of_bytes(lambda data: data.decode(errors="replace"), pa.string())


@kernel("ValidateUTF8")
def _validate_utf8(_expression: Expression) -> Kernel:
    def checked(data: bytes) -> str:
        if not _is_utf8(data):
            written = "".join(f"\\x{byte:02X}" for byte in data)
            raise SparkError("INVALID_UTF8_STRING", f"Invalid UTF8 byte sequence found in string: {written}.")
        return data.decode()

    return _of_bytes(checked, pa.string())


@kernel("TryValidateUTF8")
def _try_validate_utf8(_expression: Expression) -> Kernel:
    return _of_bytes(lambda data: data.decode() if _is_utf8(data) else None, pa.string())


def _of_bytes(function: Callable[[bytes], Any], type: pa.DataType) -> Kernel:
    by_row = rowwise(function, type)

    def run(values: Sequence[Value], rows: int) -> Value:
        value = values[0]
        if isinstance(value, pa.Scalar):
            return by_row([as_array(value, 1).cast(pa.binary())], 1)[0]
        return by_row([value.cast(pa.binary())], rows)

    return run


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
