"""The dataflow as a picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.unit.api.plan_kit import clicks_plan, plan_of, vertex

from snapline.api.plan_svg import MAX_OPERATORS, edge_label, picture
from snapline.protocol.statistics.job_view import EdgeView, OperatorView, PlanView
from snapline.types import Partitioning

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [found.text or "" for found in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_vertex_operator_and_partitioning_is_named() -> None:
    assert texts(picture(clicks_plan(), "Job clicks")) == [
        "Job clicks",
        "dead_letters: rebalance",
        "by user",
        "clicks ×2",
        "Rate (source)",
        "bad ×1",
        "Print (sink)",
        "per-user ×4",
        "aggregate by user (state)",
        "counts: Files (sink)",
    ]


def test_details_are_tooltips() -> None:
    tooltips = [found.text for found in ElementTree.fromstring(picture(clicks_plan(), "")).iter(f"{SVG}title")]
    assert tooltips[1] == ("clicks: parallelism 2 of at most 128\nRate (source): user string, time timestamp[ms]")


def test_nothing_comes_from_outside() -> None:
    svg = picture(clicks_plan(), "x")
    assert not re.search(r"href|url\(|@import|<script|http(?!://www\.w3\.org/2000/svg)", svg)


def test_text_is_escaped_and_what_xml_does_not_allow_is_replaced() -> None:
    nasty = '</text><script>alert("1")</script>\x00\x1b\ud800'
    plan = PlanView((vertex("a", OperatorView("a", nasty, columns=((nasty, "string"),))),), ())
    svg = picture(plan, nasty)
    svg.encode()
    assert "<script" not in svg
    assert texts(svg)[0].startswith('</text><script>alert("1")</script>\ufffd')


def test_it_has_colours_of_its_own_for_light_and_dark() -> None:
    svg = picture(clicks_plan(), "x")
    assert "prefers-color-scheme: dark" in svg
    rules = re.findall(r"^\.snapline-plan .*", svg, re.MULTILINE)
    assert len(rules) == svg.count("{") - 1  # all but the media query concern this picture only
    assert '<rect class="sheet" width="100%" height="100%"' in svg


def test_text_is_legible_in_both() -> None:
    light, dark = picture(clicks_plan(), "x").split("@media")
    for colours in (light, light + dark):
        found: dict[str, str] = {}
        for names, colour in re.findall(r"^(\.snapline-plan [^{]*) \{ fill: (#\w{6})", colours, re.MULTILINE):
            found.update((name.strip().removeprefix(".snapline-plan "), colour) for name in names.split(","))
        for text in ("text", ".more", ".label"):
            assert contrast(found[text], found[".box"]) >= 4.5
            assert contrast(found[text], found[".sheet"]) >= 4.5
        for mark in (".bar", ".bar.source", ".bar.sink", ".arrow"):
            assert contrast(found[mark], found[".sheet"]) >= 3


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_boxes_do_not_overlap_and_lie_within_the_picture() -> None:
    root = ElementTree.fromstring(picture(plan_of("a>b", "b>c", "c>d", "a>d", "a>e", "e>d"), "x"))
    _, _, right, bottom = map(float, root.attrib["viewBox"].split())
    boxes = [
        [float(found.attrib[name]) for name in ("x", "y", "width", "height")]
        for found in root.iter(f"{SVG}rect")
        if found.attrib["class"] == "box"
    ]
    assert len(boxes) == 5
    for number, (x, y, width, height) in enumerate(boxes):
        assert 0 <= x < x + width <= right
        assert 0 <= y < y + height <= bottom
        for other_x, other_y, other_width, other_height in boxes[:number]:
            is_beside = x + width <= other_x or other_x + other_width <= x
            assert is_beside or y + height <= other_y or other_y + other_height <= y


def test_a_long_chain_is_cut() -> None:
    chain = [OperatorView(f"o{number}", "map") for number in range(MAX_OPERATORS + 5)]
    assert texts(picture(PlanView((vertex("o0", *chain),), ()), "x"))[-1] == "and 5 more"


def test_an_empty_plan() -> None:
    assert texts(picture(PlanView((), ()), "nothing")) == ["nothing"]


def test_labels_of_edges() -> None:
    assert edge_label(EdgeView("a", "b", Partitioning.FORWARD)) == ""
    assert edge_label(EdgeView("a", "b", Partitioning.HASH, ("x", "y"))) == "by x, y"
    assert edge_label(EdgeView("a", "b", Partitioning.BROADCAST)) == "broadcast"
    assert edge_label(EdgeView("a", "b", Partitioning.FORWARD, (), "late")) == "late"
    assert edge_label(EdgeView("a", "b", Partitioning.HASH, ("x",), "late")) == "late: by x"
