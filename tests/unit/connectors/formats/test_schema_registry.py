"""The client of the schema registry: every answer that a registry can give."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from tests.unit.connectors.formats.registry_kit import RegistryServer, registry_server

import snapline as sl
from snapline.connectors.formats.schema_registry import SchemaRegistry, UnknownSchemaError
from snapline.errors import ConfigurationError, TransientError

SCHEMA = '{"type":"record","name":"R","fields":[{"name":"n","type":"long"}]}'
OTHER = '{"type":"record","name":"R","fields":[{"name":"n","type":"string"}]}'


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as found:
        yield found


def test_schemas_are_registered_and_found(server: RegistryServer) -> None:
    registry = pickle.loads(pickle.dumps(SchemaRegistry(server.url + "/")))
    assert registry.is_compatible("a/b c-value", SCHEMA)
    assert registry.register("a/b c-value", SCHEMA) == 1
    assert registry.register("a/b c-value", SCHEMA) == 1
    assert registry.lookup("a/b c-value", SCHEMA) == 1
    assert registry.schema(1) == SCHEMA
    assert registry.latest("a/b c-value") == SCHEMA
    assert not registry.is_compatible("a/b c-value", OTHER)
    assert server.requests[1] == "POST /subjects/a%2Fb%20c-value/versions"


def test_what_is_not_there(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    with pytest.raises(UnknownSchemaError, match=r"have the schema 7 \(GET http.*answered 404: Schema not found"):
        registry.schema(7)
    with pytest.raises(UnknownSchemaError, match="does not have the subject 's'"):
        registry.latest("s")
    with pytest.raises(UnknownSchemaError, match="does not have this schema under the subject 's'"):
        registry.lookup("s", SCHEMA)


def test_an_incompatible_schema_is_refused(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url)
    registry.register("s", SCHEMA)
    with pytest.raises(ConfigurationError, match="is not compatible with the subject 's'; change the columns"):
        registry.register("s", OTHER)


def test_credentials_by_reference(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.credentials = "me:very-secret"
    server.add("s", SCHEMA)
    monkeypatch.setenv("REGISTRY_PASSWORD", "very-secret")
    registry = SchemaRegistry(server.url, user="me", password=sl.Secret.env("REGISTRY_PASSWORD"))
    assert registry.latest("s") == SCHEMA
    assert "secret" not in repr(registry)
    monkeypatch.setenv("REGISTRY_PASSWORD", "wrong-secret")
    with pytest.raises(TransientError, match="refuses the credentials; check registry_user=") as caught:
        registry.latest("s")
    assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (500, b"{}", TransientError, "failed; look at its log"),
        (429, b"slow down", TransientError, "answered 429"),
        (422, b'{"message":"Invalid schema"}', ConfigurationError, "answered 422: Invalid schema"),
        (302, b"", ConfigurationError, "answered 302"),
        (200, b"<html>", ConfigurationError, "did not answer as a schema registry does"),
        (200, b"[]", ConfigurationError, "did not answer as a schema registry does"),
        (200, b"{}", ConfigurationError, "did not answer as a schema registry does"),
    ],
)
def test_other_answers(server: RegistryServer, status: int, body: bytes, kind: type[Exception], said: str) -> None:
    server.answer = status, body
    with pytest.raises(kind, match=said):
        SchemaRegistry(server.url).latest("s")
    assert len(server.requests) == 1


def test_a_registry_that_is_away() -> None:
    with registry_server() as server:
        url = server.url
    with pytest.raises(TransientError, match=r"cannot be reached: GET http.*check that it runs and registry="):
        SchemaRegistry(url).latest("s")


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="has credentials in it") as caught:
        SchemaRegistry("http://me:hidden@127.0.0.1:8081")
    assert "hidden" not in str(caught.value)
    for url in ("127.0.0.1:8081", "file:///etc/passwd", "", None):
        with pytest.raises(ConfigurationError, match="give an address such as"):
            SchemaRegistry(url)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="give both"):
        SchemaRegistry("http://127.0.0.1:8081", user="me")
    with pytest.raises(ConfigurationError, match="timeout_s=0"):
        SchemaRegistry("http://127.0.0.1:8081", timeout_s=0)
