"""The demo's options, and mistakes that cost one line; `tests/spark/test_demo.py` runs the whole demo."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from snapline import cli
from snapline.cli.usage import BAD_INPUT
from snapline.demo.run import DemoOptions


def test_options_say_how_many_clicks_come() -> None:
    assert DemoOptions(duration="2s", rows_per_second=500).rows == 1000


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--duration", "soon"], "not a duration"),
        (["--duration", "0s"], "use 1 to"),
        (["--rows-per-second", "0"], "use 1 to"),
        (["--rows-per-second", "many"], "not a number"),
        (["--parallelism", "0"], "--parallelism 0: use 1 to 64"),
        (["--keep", "FULL"], "is not empty"),
        (["--keep", "FULL/file"], "cannot be used as a directory"),
    ],
)
def test_a_mistake_costs_one_line(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    given = [argument.replace("FULL", str(tmp_path)) for argument in arguments]
    assert cli.main(["demo", *given]) == BAD_INPUT
    output = capsys.readouterr()
    assert complaint in output.err
    assert output.err.count("\n") == 1
    assert output.out == ""


def test_a_missing_pyspark_is_reported_with_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "snapline.spark.embedded_spark", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert cli.main(["demo"]) == BAD_INPUT
    assert "pip install 'snapline[spark]'" in capsys.readouterr().err
