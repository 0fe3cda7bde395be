from __future__ import annotations

from snapline.web.rest_ids import hex_id, is_named, is_request_id, new_request_id, page_url


def test_an_id_is_32_hex_digits_and_the_same_everywhere() -> None:
    assert hex_id("clicks") == "95b574ad8572fe6438c9ac3a2040234b"
    assert hex_id("per-user/✓") != hex_id("per-user")


def test_a_path_may_hold_either_id() -> None:
    assert is_named("clicks", "clicks")
    assert is_named(hex_id("clicks").upper(), "clicks")
    assert not is_named("Clicks", "clicks")


def test_request_ids_are_made_and_recognised() -> None:
    assert is_request_id(new_request_id())
    assert new_request_id() != new_request_id()
    assert not is_request_id("1234")
    assert not is_request_id(new_request_id() + "\n")


def test_a_page_is_on_its_server() -> None:
    assert page_url("http://127.0.0.1:4300", "clicks") == f"http://127.0.0.1:4300/#/jobs/{hex_id('clicks')}"
