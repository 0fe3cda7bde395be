"""The API reference is made from the docstrings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import snapline
import snapline.testing
from snapline.devtools.pages import reference_page
from snapline.devtools.pages.reference_page import FOR_THE_ENGINE, main, public_names, render_page
from snapline.errors import EngineError


def test_every_public_name_is_on_the_page_once() -> None:
    page = render_page()
    names = [name for name, _, _ in public_names()]
    assert {f"snapline.{name}" for name in snapline._WHERE} <= set(names)
    assert {f"snapline.testing.{name}" for name in snapline.testing.__all__} <= set(names)
    assert {"snapline.sources.Rate", "snapline.sinks.Files", "snapline.statistics.TaskMetrics"} <= set(names)
    for name in names:
        assert page.count(f"### `{name}`\n") == 1, name


def test_no_chapter_is_empty_and_a_module_without_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    chapters = render_page().split("\n## ")[1:]
    assert len(chapters) == len(reference_page._CHAPTERS)
    assert [chapter for chapter in chapters if "### `" not in chapter] == []
    monkeypatch.setattr(reference_page, "_CHAPTERS", reference_page._CHAPTERS[:-1])
    with pytest.raises(EngineError, match=r"snapline.testing.ABORT comes from .* which no chapter"):
        render_page()


def test_methods_come_with_signature_and_docstring() -> None:
    page = render_page()
    assert "#### `Stream.union`" in page
    assert "Stream.union(*others: Stream) -> Stream" in page
    assert "OperatorHarness.of(stream: Stream" in page
    assert (snapline.Stream.union.__doc__ or "").splitlines()[0] in page
    assert " at 0x" not in page
    assert "ForwardRef" not in page


def test_what_only_the_engine_calls_is_left_out() -> None:
    page = render_page()
    assert "snapline.KeyedStream(" not in page
    assert "snapline.Tumbling(" in page
    for name, methods in FOR_THE_ENGINE.items():
        assert [method for method in methods if f"`{name}.{method}`" in page] == []


def test_aliases_and_constants_come_with_the_text_below_them() -> None:
    page = render_page()
    for shown in ("Duration = str | timedelta | int", "Split = Any", "ABORT = Marker.ABORT"):
        assert re.search(rf"```python\n{re.escape(shown)}\n```\n\n\w", page), shown


def test_everything_public_has_a_docstring() -> None:
    for name, _, found in public_names():
        assert (found.__doc__ or "").strip(), name


def test_a_stale_page_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "reference.md"
    assert main([str(path), "--check"]) == 1
    assert main([str(path)]) == 0
    assert main([str(path), "--check"]) == 0
    path.write_text("old", encoding="utf-8")
    assert main([str(path), "--check"]) == 1
    assert "make docs" in capsys.readouterr().err
