from __future__ import annotations

import pytest
from benchmarks.live_viewers import measure


@pytest.mark.slow
def test_viewers_are_answered_in_their_turns() -> None:
    found = measure(viewers=3, turns=2, seconds=1.0, warm_up_s=0.5)
    assert found["rows_per_s_with"] > 0
    assert found["rows_per_s_without"] > 0
    assert len(found["pairs"]) == 2
    assert found["requests"] >= 2 * 3
    assert found["bytes"] > 1000 * found["requests"]
    assert set(found["cores"]) == {"viewers", "driver_with", "driver_without"}
