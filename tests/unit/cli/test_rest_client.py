"""Requests to a job's server: what is sent, and which error each refusal becomes."""

from __future__ import annotations

import socket

import pytest
from tests.unit.cli.cli_kit import Answer, StubServer

from snapline.cli import rest_client
from snapline.cli.rest_client import RefusedConnectionError, RestClient, TokenError
from snapline.cli.usage import OperationError, UnreachableError, UsageError


def test_a_document_is_asked_for_with_query_and_token(server: StubServer) -> None:
    server.answers["GET /snapline/x"] = (200, {"n": 1})
    assert RestClient(f"{server.url}/", "s3cret").get("/snapline/x", limit=5, before=None) == {"n": 1}
    assert server.asked == [("GET", "/snapline/x?limit=5", None, "Bearer s3cret")]


def test_what_is_none_is_not_sent(server: StubServer) -> None:
    server.answers["POST /x"] = (202, {"request_id": "1"})
    RestClient(server.url).post("/x", {"directory": None, "drain": True})
    assert server.asked == [("POST", "/x", {"drain": True}, None)]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, UsageError),
        (401, TokenError),
        (403, OperationError),
        (404, UnreachableError),
        (405, UsageError),
        (409, OperationError),
        (429, OperationError),
        (500, OperationError),
    ],
)
def test_refusals(server: StubServer, status: int, kind: type[Exception]) -> None:
    server.answers["GET /x"] = (status, {"errors": ["the first line\nand more", "another"]})
    with pytest.raises(kind) as raised:
        RestClient(server.url).get("/x")
    assert type(raised.value) is kind
    assert ("--token-file" if status == 401 else "the first line; another") in str(raised.value)


def test_a_redirect_is_not_followed_as_it_would_lead_the_token_away(server: StubServer) -> None:
    server.answers["GET /x"] = (302, {})
    with pytest.raises(OperationError, match="302"):
        RestClient(server.url, "s3cret").get("/x")


def test_a_job_that_is_starting_is_asked_again(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "_PAUSE_S", 0.001)
    answers: list[Answer] = [(503, {"errors": ["it is starting"]}), (200, {"n": 1})]
    server.answers["GET /x"] = lambda _: answers.pop(0)
    assert RestClient(server.url).get("/x") == {"n": 1}
    answers += [(503, {"errors": ["it is starting"]})]
    monkeypatch.setattr(rest_client, "_PAUSE_S", 60.0)
    with pytest.raises(OperationError, match="it is starting"):
        RestClient(server.url).get("/x", timeout_s=30.0)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RefusedConnectionError, match="nobody listens"):
        RestClient(f"http://127.0.0.1:{port}").get("/x")


def test_a_server_that_does_not_answer() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(UnreachableError, match="does not answer in time"),
    ):
        RestClient(f"http://127.0.0.1:{silent.getsockname()[1]}").get("/x", timeout_s=0.05)


def test_something_else_listens(server: StubServer) -> None:
    server.answers["GET /x"] = (200, b"<html>")
    with pytest.raises(UnreachableError, match="is no Snapline job"):
        RestClient(server.url).get("/x")


def test_an_answer_is_limited(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "MAX_ANSWER_BYTES", 10)
    server.answers["GET /x"] = (200, {"text": "longer than that"})
    with pytest.raises(UnreachableError, match="more than 10 bytes"):
        RestClient(server.url).get("/x")


def test_loopback_is_asked_without_a_proxy(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.answers["GET /x"] = (200, {})
    assert RestClient(server.url).get("/x") == {}
