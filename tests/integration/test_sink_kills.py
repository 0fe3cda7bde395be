"""Every exactly-once sink through a round of kills at each point of a commit; `benchmarks.sink_kills` has more rounds.

A round kills the operator process, or the driver, before and after it prepares, once the checkpoint is durable, in the
middle of a commit and behind it, and then wakes up a zombie; a reader looks on all the while. Operators die with their
driver in any case, so those of a driver that is killed are threads of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.sink_kills.deadly_sink import POINTS
from benchmarks.sink_kills.kill_round import run_round
from benchmarks.sink_kills.kill_targets import (
    BROKER_OUTAGE,
    TARGETS,
    KafkaTarget,
    PostgresTarget,
)
from tests.program_kit import programs
from tests.servers_kit import or_skip

from snapline.devtools.servers.kafka_server import KafkaServer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("victim", ["operator", "driver"])
@pytest.mark.parametrize("name", TARGETS)
def test_exactly_once_through_every_kill(
    name: str, victim: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    target = TARGETS[name]
    if isinstance(target, KafkaTarget):
        target.server = request.getfixturevalue("kafka")
    elif isinstance(target, PostgresTarget):
        target.server = request.getfixturevalue("postgres")
    place = target.place(f"{name}-{victim}", tmp_path)
    outcome = run_round(
        name,
        victim,
        seed=1,
        place=place,
        root=_empty(tmp_path),
        in_threads=victim == "driver",
        server=programs(),
    )
    assert outcome.points == list(POINTS)
    assert outcome.zombie
    assert outcome.drivers >= (1 if victim == "operator" else len(POINTS))


def test_exactly_once_with_the_broker_down_for_longer_than_the_transaction_timeout(tmp_path: Path) -> None:
    target = TARGETS["kafka"]
    assert isinstance(target, KafkaTarget)
    with or_skip(KafkaServer(tmp_path / "kafka")) as target.server:
        place = target.place("outage", tmp_path)
        outcome = run_round("kafka", "operator", seed=1, place=place, root=_empty(tmp_path), disturb=BROKER_OUTAGE)
    assert outcome.disturbances


def _empty(tmp_path: Path) -> Path:
    root = tmp_path / "round"
    root.mkdir()
    return root
