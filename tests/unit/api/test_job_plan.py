"""How a job would run: text, picture, files."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from tests.unit.api.plan_kit import clicks_plan

from snapline.api.job_plan import JobPlan
from snapline.errors import ConfigurationError

PLAN = JobPlan("clicks", clicks_plan(), 4, (("starts", "from <b>"),), {"bad": "rare"}, ("no & effect",))


def test_the_text_has_drawing_facts_notes_and_vertices() -> None:
    text = str(PLAN)
    assert text.splitlines()[0] == "Job 'clicks': 4 operators in 3 vertices, 4 slots" == PLAN.title
    for part in ("├──┬───▶│", "starts  from <b>", "note    no & effect", "bad  Print, sink; rare"):
        assert part in text
    assert repr(PLAN) == "<JobPlan 'clicks': 3 vertices, 4 slots>"


def test_a_notebook_shows_picture_and_text() -> None:
    html = PLAN._repr_html_()
    image = re.search(r"data:image/svg\+xml;base64,([^\"]+)", html)
    assert image is not None
    assert base64.b64decode(image[1]).decode() == PLAN.svg == PLAN._repr_svg_()
    assert "from &lt;b&gt;" in html
    assert "<p><b>Note:</b> no &amp; effect</p>" in html


def test_it_is_saved_by_the_ending_of_the_file(tmp_path: Path) -> None:
    PLAN.save(tmp_path / "plan.svg")
    PLAN.save(str(tmp_path / "plan.TXT"))
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8") == PLAN.svg
    assert (tmp_path / "plan.TXT").read_text(encoding="utf-8") == f"{PLAN}\n"
    with pytest.raises(ConfigurationError, match=r"ends in \.svg or \.txt"):
        PLAN.save(tmp_path / "plan.png")
