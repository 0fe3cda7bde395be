"""Sessions no job is started on; `tests/spark` starts jobs on real ones."""

from __future__ import annotations

import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.spark.launcher import start_job


def test_a_connect_session_is_refused_before_anything_starts() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigurationError, match="classic mode"):
        start_job(remote, sl.Job("job"))
