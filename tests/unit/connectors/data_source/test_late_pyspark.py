"""Without pyspark, the error says what to install."""

from __future__ import annotations

import sys

import pytest

from snapline.connectors.data_source.late_pyspark import data_source_types
from snapline.errors import ConfigurationError


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_source_types().is_message(1) is False
    monkeypatch.delitem(sys.modules, "snapline.spark.data_source_types")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'snapline\[spark\]'"):
        data_source_types()
