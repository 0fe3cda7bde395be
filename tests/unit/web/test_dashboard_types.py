from __future__ import annotations

import msgspec

from snapline.web.dashboard_types import AggregatedMetric, Metric, SubtaskBackPressure


def test_what_was_not_asked_for_is_left_out() -> None:
    assert msgspec.to_builtins(Metric("0.numRecordsIn")) == {"id": "0.numRecordsIn"}
    assert msgspec.to_builtins(AggregatedMetric("numRecordsIn", max=2.0)) == {"id": "numRecordsIn", "max": 2.0}


def test_the_level_has_the_names_of_all_versions() -> None:
    assert msgspec.to_builtins(SubtaskBackPressure(1, 0, "low", "low", 0.2, 0.3, 0.5)) == {
        "subtask": 1,
        "attempt-number": 0,
        "backpressure-level": "low",
        "backpressureLevel": "low",
        "ratio": 0.2,
        "idleRatio": 0.3,
        "busyRatio": 0.5,
    }
