"""The formats of messages: how rows are written as bytes, for connectors of brokers."""

from snapline.connectors.formats.avro_format import Avro
from snapline.connectors.formats.json_format import Json
from snapline.connectors.formats.message_format import Decoded, MessageDecoder, MessageEncoder, MessageFormat
from snapline.connectors.formats.protobuf_format import Protobuf
from snapline.connectors.formats.raw_format import Raw

__all__ = ["Avro", "Decoded", "Json", "MessageDecoder", "MessageEncoder", "MessageFormat", "Protobuf", "Raw"]
