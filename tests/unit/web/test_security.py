from __future__ import annotations

import pytest

from snapline.web.rest_errors import RestError
from snapline.web.security import Access

LOCAL = Access(is_loopback=True, port=4300, read_only=False)
GUARDED = Access(is_loopback=False, port=4300, read_only=False, token="s3cret")
HOST = {"host": "127.0.0.1:4300"}
BROWSER = {**HOST, "user-agent": "Mozilla/5.0 (X11)"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1:4300", "localhost", "LOCALHOST:1", "[::1]:4300", "127.8.8.8", "[::1]", "localhost:4300"]
)
def test_names_of_this_machine_are_let_in(host: str) -> None:
    LOCAL.check_host({"host": host})


@pytest.mark.parametrize(
    "host", ["evil.example:4300", "10.0.0.1:4300", "", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]"]
)
def test_other_names_are_not(host: str) -> None:
    with pytest.raises(RestError) as refused:
        LOCAL.check_host({"host": host})
    assert refused.value.status == 403
    GUARDED.check_host({"host": host})


def test_without_a_token_everybody_may_look() -> None:
    assert LOCAL.check_token({}, {}) is False
    assert not LOCAL.is_token("")


def test_the_token_is_taken_from_the_header_or_the_cookie() -> None:
    assert GUARDED.check_token({"authorization": "Bearer s3cret"}, {}) is False
    assert GUARDED.check_token({"authorization": "bearer  s3cret "}, {}) is False
    assert GUARDED.check_token({}, {GUARDED.cookie_name: GUARDED.cookie}) is True
    assert "s3cret" not in GUARDED.set_cookie
    assert "s3cret" not in repr(GUARDED)
    assert "HttpOnly; SameSite=Strict" in GUARDED.set_cookie


@pytest.mark.parametrize(
    ("headers", "cookies"),
    [
        ({}, {}),
        ({"authorization": "Bearer wrong"}, {}),
        ({"authorization": "Basic s3cret"}, {}),
        ({"authorization": "Bearer wr\udcffng"}, {}),
        ({}, {"snapline-4300": "s3cret"}),
        ({}, {"snapline-4300": ""}),
        ({"authorization": "Bearer wrong"}, {"snapline-4300": GUARDED.cookie}),
    ],
)
def test_a_wrong_token_is_refused(headers: dict[str, str], cookies: dict[str, str]) -> None:
    with pytest.raises(RestError) as refused:
        GUARDED.check_token(headers, cookies)
    assert refused.value.status == 401
    assert dict(refused.value.headers)["www-authenticate"].startswith("Bearer")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "headers",
    [
        HOST,
        {**HOST, "user-agent": "curl/8.5"},
        {**BROWSER, "sec-fetch-site": "same-origin"},
        {**BROWSER, "origin": "http://127.0.0.1:4300"},
        {**BROWSER, "origin": "http://127.0.0.1:4300", "sec-fetch-site": "same-origin"},
        {**BROWSER, "referer": "http://127.0.0.1:4300/index.html"},
        {"host": "jobs.example", "origin": "https://jobs.example"},
        {"host": "jobs.example:443", "origin": "https://jobs.example"},
    ],
)
def test_our_own_page_and_programs_may_change_jobs(headers: dict[str, str]) -> None:
    LOCAL.check_change(headers, by_cookie=False)


@pytest.mark.parametrize(
    "headers",
    [
        BROWSER,
        {**BROWSER, "sec-fetch-site": "cross-site"},
        {**BROWSER, "sec-fetch-site": "same-site"},
        {**BROWSER, "sec-fetch-site": "none"},
        {**HOST, "origin": "http://evil.example"},
        {**HOST, "origin": "http://127.0.0.1:9999"},
        {**HOST, "origin": "null"},
        {**HOST, "origin": "http://[evil"},
        {**HOST, "referer": "http://evil.example/page"},
        {**HOST, "referer": ""},
        {**BROWSER, "sec-fetch-site": "same-origin", "origin": "http://evil.example"},
        {"host": "127.0.0.1:80", "origin": "https://127.0.0.1"},
    ],
)
def test_pages_from_elsewhere_may_not(headers: dict[str, str]) -> None:
    with pytest.raises(RestError) as refused:
        LOCAL.check_change(headers, by_cookie=False)
    assert refused.value.status == 403


def test_a_cookie_alone_is_no_sign_of_our_own_page() -> None:
    with pytest.raises(RestError):
        GUARDED.check_change(HOST, by_cookie=True)
    GUARDED.check_change({**HOST, "sec-fetch-site": "same-origin"}, by_cookie=True)


def test_a_read_only_server_changes_nothing() -> None:
    with pytest.raises(RestError, match="read-only"):
        Access(is_loopback=True, port=4300, read_only=True).check_change(HOST, by_cookie=False)
