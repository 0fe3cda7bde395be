"""Where Spark's tests come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.spark_tests.suites import load

from snapline.errors import ConfigurationError


def test_what_is_no_checkout_of_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no checkout of Spark"):
        load(tmp_path)
