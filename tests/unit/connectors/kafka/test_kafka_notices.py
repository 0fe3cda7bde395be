from __future__ import annotations

import logging

import pytest

from snapline.connectors.kafka.kafka_notices import Trouble


def test_trouble_is_told_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    trouble = Trouble(lambda: now[0])
    told: list[int] = []
    for second in range(100):
        now[0] = float(second)
        is_due = trouble.is_due
        trouble.seen("away")
        if len(caplog.records) > len(told):
            told.append(second)
            assert is_due == (second > 0)
    assert told == [0, 10, 30, 70]
    assert trouble.lasts
    trouble.over("back", settled_s=1)
    assert trouble.lasts
    trouble.over("back")
    trouble.over("back")
    assert bool(trouble.is_due) is False
    assert [record.message for record in caplog.records[-2:]] == ["away (for 70 s now)", "back, after 99 s"]
    trouble.seen("away")
    assert caplog.records[-1].message == "away"
