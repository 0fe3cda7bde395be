from __future__ import annotations

from pathlib import Path

import pytest

from snapline.web.asset_files import MAX_FILE_BYTES, find_asset


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "assets" / "parts").mkdir(parents=True)
    (tmp_path / "assets" / "index.html").write_text("<p>hello")
    (tmp_path / "assets" / "parts" / "a.js").write_text("1")
    (tmp_path / "assets" / "notes.md").write_text("not for users")
    (tmp_path / "secret.js").write_text("secret")
    (tmp_path / "assets" / "link.js").symlink_to(tmp_path / "secret.js")
    return tmp_path / "assets"


def test_the_page_and_its_files(root: Path) -> None:
    page = find_asset(("",), root)
    assert page is not None
    assert (page.content, page.content_type) == (b"<p>hello", "text/html; charset=utf-8")
    part = find_asset(("parts", "a.js"), root)
    assert part is not None
    assert part.content_type == "text/javascript; charset=utf-8"
    assert part.etag != page.etag


def test_a_changed_file_has_another_tag(root: Path) -> None:
    before = find_asset(("index.html",), root)
    (root / "index.html").write_text("<p>hello again")
    after = find_asset(("index.html",), root)
    assert before is not None
    assert after is not None
    assert before.etag != after.etag


@pytest.mark.parametrize(
    "segments",
    [
        ("none.js",),
        ("..", "secret.js"),
        ("parts", "..", "..", "secret.js"),
        ("../secret.js",),
        ("link.js",),
        ("notes.md",),
        ("parts",),
        ("parts", ""),
        (".hidden.js",),
        ("a\0.js",),
        ("x" * 5000 + ".js",),
    ],
)
def test_nothing_else_is_found(root: Path, segments: tuple[str, ...]) -> None:
    assert find_asset(segments, root) is None


def test_huge_files_are_left_out(root: Path) -> None:
    with open(root / "huge.js", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert find_asset(("huge.js",), root) is None
