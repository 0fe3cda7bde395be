"""The settings of Spark SQL that change what a stateful processor sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from snapline.errors import ConfigurationError

TIME_ZONE = "spark.sql.session.timeZone"
FRAME_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
FRAME_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
INT_TO_DECIMAL = "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"
STATE_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


@dataclass(frozen=True, slots=True)
class ProcessorSettings:
    """Settings under which a processor runs; the defaults hold where there is no Spark session.

    A pandas frame has at most `frame_rows` rows and about `frame_bytes` bytes; None is no limit. Times without a zone
    are in `time_zone`. `int_to_decimal` lets integers of a frame become decimals. With `is_avro`, all columns of
    states must be nullable, as in Spark's Avro encoding of state.
    """

    time_zone: str = "UTC"
    frame_rows: int | None = 10_000
    frame_bytes: int | None = None
    int_to_decimal: bool = False
    is_avro: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> ProcessorSettings:
        """Returns the settings given by Spark's names; if None, those of the active session, if there is one.

        Raises `ConfigurationError` for a value that is no value of its setting.
        """
        read = _reader(given)
        return cls(
            time_zone=read(TIME_ZONE, str, cls().time_zone),
            frame_rows=_limit(read(FRAME_ROWS, int, 10_000)),
            frame_bytes=_limit(read(FRAME_BYTES, _bytes, 0)),
            int_to_decimal=read(INT_TO_DECIMAL, _flag, False),
            is_avro=read(STATE_ENCODING, lambda text: text.lower() == "avro", False),
        )


def _reader(given: Mapping[str, Any] | None) -> Callable[[str, Callable[[str], Any], Any], Any]:
    def read(name: str, parse: Callable[[str], Any], default: Any) -> Any:
        value = _of_session(name) if given is None else given.get(name)
        if value is None:
            return default
        try:
            return parse(str(value))
        except ValueError as error:
            raise ConfigurationError(f"transform_with_state(conf=...): {name}={value!r} is wrong: {error}") from error

    return read


def _of_session(name: str) -> str | None:
    session = SparkSession.getActiveSession()
    return None if session is None else session.conf.get(name, None)


def _limit(number: int) -> int | None:
    return number if number > 0 else None


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return text.lower() == "true"


def _bytes(text: str) -> int:
    digits = text.strip().rstrip("bBkKmMgG")
    unit = text.strip()[len(digits) :].lower()
    if unit not in _UNITS:
        raise ValueError("the unit is none of b, k, m and g")
    return int(digits) * _UNITS[unit]
