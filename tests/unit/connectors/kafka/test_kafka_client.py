from __future__ import annotations

import pickle
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

import snapline as sl
from snapline.connectors.kafka.kafka_client import KafkaConnection, error_name, is_away, is_missing_topic, is_refused
from snapline.errors import ConfigurationError, TransientError, UserCodeError


def connection(**options: Any) -> KafkaConnection:
    return KafkaConnection("sources.Kafka", "host:9092", options)


def test_settings_of_security() -> None:
    assert connection().settings(group_id="g") == {
        "bootstrap.servers": "host:9092",
        "client.id": "snapline",
        "group.id": "g",
    }
    secured = connection(username="ada", password="very secret").settings()
    assert secured["security.protocol"] == "SASL_SSL"
    assert (secured["sasl.mechanism"], secured["sasl.password"]) == ("PLAIN", "very secret")
    assert connection(ssl_ca="/ca.pem").settings()["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"user": "ada"}, "there is no setting 'user'"),
        ({"username": "ada"}, "password= is missing"),
        ({"sasl_mechanism": 3}, "sasl_mechanism=3; give text"),
        ({"password": 3}, "password: a int"),
    ],
)
def test_wrong_settings_of_security(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        connection(**options)


def test_config_wins_and_what_is_reserved_is_refused() -> None:
    made = KafkaConnection("x", "h:1", {}, {"client.id": "mine"}, {"group.id": "use group="})
    assert made.settings(client_id="ours")["client.id"] == "mine"
    for name, problem in (("group.id", "use group="), ("bootstrap.servers", "as bootstrap"), (3, "names are text")):
        with pytest.raises(ConfigurationError, match=problem):
            KafkaConnection("x", "h:1", {}, {name: "g"}, {"group.id": "use group="})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match="give the address"):
        KafkaConnection("x", "", {})


def test_secrets_are_resolved_late_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    made = connection(username="ada", password=sl.Secret.env("KAFKA_PASSWORD"))
    monkeypatch.setenv("KAFKA_PASSWORD", "very secret")
    copy = pickle.loads(pickle.dumps(made))
    assert copy.settings()["sasl.password"] == "very secret"
    assert b"very secret" not in pickle.dumps(made)
    assert "very secret" not in repr(made)
    error = KafkaException(KafkaError(KafkaError._AUTHENTICATION, "no very secret here"))
    assert "no *** here" in str(made.error(error, "read"))
    hidden = KafkaConnection("x", "h:1", {}, {"sasl.password": "very secret"})
    assert hidden.settings()["sasl.password"] == "very secret"
    assert "very secret" not in hidden.shown(Exception("very secret"))


def test_settings_that_the_client_refuses() -> None:
    with pytest.raises(ConfigurationError, match="No such configuration property"):
        KafkaConnection("x", "h:1", {}, {"no.such": 1}).consumer(group_id="g")


@pytest.mark.parametrize(
    ("code", "is_running", "kind"),
    [
        (KafkaError._TRANSPORT, False, TransientError),
        (KafkaError._AUTHENTICATION, False, ConfigurationError),
        (KafkaError._AUTHENTICATION, True, TransientError),
        (KafkaError._SSL, False, ConfigurationError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False, ConfigurationError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, True, ConfigurationError),
        (KafkaError._BAD_MSG, True, UserCodeError),
    ],
)
def test_what_errors_mean(code: int, is_running: bool, kind: type[Exception]) -> None:
    found = connection().error(KafkaError(code), "read", is_running=is_running)
    assert type(found) is kind
    assert "sources.Kafka('host:9092'): cannot read" in str(found)


def test_kinds_of_errors() -> None:
    assert error_name(KafkaException(KafkaError(KafkaError._TRANSPORT))) == "_TRANSPORT"
    assert error_name(ValueError("x")) == ""
    assert is_away(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert is_refused(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    assert is_missing_topic(KafkaError(KafkaError._UNKNOWN_TOPIC))
    assert not is_away(ValueError("x"))
