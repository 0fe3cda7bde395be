"""Messages as they are."""

from __future__ import annotations

import pyarrow as pa

from snapline.connectors.formats.message_format import (
    BatchDecoder,
    Decoded,
    MessageDecoder,
    MessageEncoder,
    MessageFormat,
    Messages,
    Nulls,
    checked_nulls,
)
from snapline.errors import ConfigurationError

_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


class Raw(MessageFormat):
    """The bytes of messages in one column, or their text in UTF-8 with `text=True`.

    Rows to encode have one column of bytes or text. A null is a message without a value, in both directions; `nulls`
    can say otherwise for decoding.
    """

    def __init__(self, *, text: bool = False, column: str = "value", nulls: Nulls = "row") -> None:
        self._schema = pa.schema([(column, pa.string() if text else pa.binary())])
        self._nulls = checked_nulls(nulls, self._schema, "formats.Raw()")

    def __repr__(self) -> str:
        return f"Raw({self._schema.names[0]!r} {self._schema.types[0]})"

    def schema(self) -> pa.Schema:
        return self._schema

    def decoder(self) -> MessageDecoder:
        return _RawDecoder(self._schema, self._nulls, "text in UTF-8")

    def encoder(self, schema: pa.Schema) -> MessageEncoder:
        self.check(schema)
        return _RawEncoder()

    def check(self, schema: pa.Schema) -> None:
        if len(schema) != 1 or not any(test(schema.types[0]) for test in (*_BINARY, *_TEXT)):
            columns = ", ".join(f"{column.name} {column.type}" for column in schema)
            raise ConfigurationError(
                f"formats.Raw() writes one column of bytes or text; the rows have {columns}. Select one, or "
                "use another format"
            )


class _RawDecoder(BatchDecoder):
    def decode(self, values: Messages) -> Decoded:
        if self._nulls == "row" and self._schema.types[0] == pa.binary():
            column = values.cast(pa.binary()) if isinstance(values, pa.Array) else pa.array(values, pa.binary())
            return Decoded(pa.RecordBatch.from_arrays([column], schema=self._schema))
        return super().decode(values)

    def _rows(self, messages: list[bytes]) -> pa.RecordBatch:
        # By way of binary: from bytes to text Arrow checks the encoding.
        column = pa.array(messages, pa.binary()).cast(self._schema.types[0])
        return pa.RecordBatch.from_arrays([column], schema=self._schema)

    def _verdict(self, message: bytes) -> tuple[Exception | None, bool]:
        try:
            message.decode()
        except UnicodeDecodeError as error:
            return error, True
        return None, False


class _RawEncoder(MessageEncoder):
    def encode(self, batch: pa.RecordBatch) -> list[bytes | None]:
        messages: list[bytes | None] = batch.column(0).cast(pa.large_binary()).to_pylist()
        return messages
