"""Settings of Spark SQL by their names."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from snapline.errors import ConfigurationError
from snapline.spark.stateful import processor_settings as names
from snapline.spark.stateful.processor_settings import ProcessorSettings


def test_settings_that_are_not_given_have_defaults() -> None:
    assert ProcessorSettings.of({}) == ProcessorSettings()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({names.TIME_ZONE: "Asia/Tokyo"}, ProcessorSettings(time_zone="Asia/Tokyo")),
        ({names.FRAME_ROWS: "1"}, ProcessorSettings(frame_rows=1)),
        ({names.FRAME_ROWS: -1}, ProcessorSettings(frame_rows=None)),
        ({names.FRAME_BYTES: "2"}, ProcessorSettings(frame_bytes=2)),
        ({names.FRAME_BYTES: "64MB"}, ProcessorSettings(frame_bytes=64 << 20)),
        ({names.FRAME_BYTES: "3k"}, ProcessorSettings(frame_bytes=3 << 10)),
        ({names.INT_TO_DECIMAL: True}, ProcessorSettings(int_to_decimal=True)),
        ({names.INT_TO_DECIMAL: "false"}, ProcessorSettings()),
        ({names.STATE_ENCODING: "avro"}, ProcessorSettings(is_avro=True)),
        ({names.STATE_ENCODING: "unsaferow"}, ProcessorSettings()),
    ],
)
def test_settings_are_read_by_their_names(given: dict[str, object], expected: ProcessorSettings) -> None:
    assert ProcessorSettings.of(given) == expected


@pytest.mark.parametrize(
    ("name", "value"), [(names.FRAME_ROWS, "many"), (names.FRAME_BYTES, "5x"), (names.INT_TO_DECIMAL, "perhaps")]
)
def test_wrong_settings_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}='{value}' is wrong"):
        ProcessorSettings.of({name: value})


def test_the_settings_of_the_active_session_count_if_none_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    class Conf:
        def get(self, name: str, default: str | None) -> str | None:
            return "3" if name == names.FRAME_ROWS else default

    class Session:
        conf = Conf()

    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda _: Session()))
    assert ProcessorSettings.of(None) == ProcessorSettings(frame_rows=3)
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda _: None))
    assert ProcessorSettings.of(None) == ProcessorSettings()
