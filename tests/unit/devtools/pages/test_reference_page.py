"""The API reference is made from the docstrings."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapline
from snapline.connectors import sinks, sources
from snapline.devtools.pages.reference_page import main, render_page


def test_every_public_name_is_told_once() -> None:
    page = render_page()
    names = [f"snapline.{name}" for name in snapline.__all__ if name not in ("sources", "sinks")]
    names += [f"snapline.sources.{name}" for name in sources.__all__] + [
        f"snapline.sinks.{name}" for name in sinks.__all__
    ]
    for name in names:
        assert page.count(f"### `{name}`\n") == 1, name


def test_methods_come_with_signature_and_docstring() -> None:
    page = render_page()
    assert "#### `Stream.union`" in page
    assert "Stream.union(*others: Stream) -> Stream" in page
    assert (snapline.Stream.union.__doc__ or "").splitlines()[0] in page
    assert " at 0x" not in page


def test_aliases_come_with_what_is_written_under_them() -> None:
    assert "### `snapline.SchemaLike`\n\nWhat a schema may be given as" in render_page()


def test_everything_public_has_a_docstring() -> None:
    for name in snapline.__all__:
        assert (getattr(snapline, name).__doc__ or "").strip(), name


def test_a_stale_page_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "reference.md"
    assert main([str(path), "--check"]) == 1
    assert main([str(path)]) == 0
    assert main([str(path), "--check"]) == 0
    path.write_text("old", encoding="utf-8")
    assert main([str(path), "--check"]) == 1
    assert "make docs" in capsys.readouterr().err
