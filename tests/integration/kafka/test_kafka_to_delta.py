"""The example of the tutorial, from Kafka to a table, runs, and the tutorial shows what it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs_pages import blocks

from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.testing import ThreadCluster

EXAMPLE = Path(__file__).parents[3] / "examples" / "kafka_to_delta.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kafka_to_delta", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_it_runs(kafka: KafkaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kafka.create_topic("clicks", partitions=4)
    example().main(kafka.bootstrap, tmp_path, ThreadCluster())
    lines = ["JobStatus.FINISHED", "cart 33 7", "home 34 7", "search 33 7", "90 windows, 3000 clicks"]
    assert capsys.readouterr().out.splitlines() == lines


def test_the_tutorial_shows_the_same_job() -> None:
    shown = [block.code for block in blocks("tutorial.md") if "sl.sources.Kafka" in block.code]
    assert len(shown) == 1
    assert shown[0] in EXAMPLE.read_text()
