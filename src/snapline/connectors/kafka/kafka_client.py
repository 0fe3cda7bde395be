"""What the Kafka source and sink share: how they connect, with which credentials, and what the client's errors mean."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, get_type_hints

from snapline.config import Secret, SecretLike
from snapline.config.secret import without_secrets
from snapline.config.setting_checks import Path, path
from snapline.errors import ConfigurationError, SnaplineError, TransientError, UserCodeError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

REQUEST_TIMEOUT_S = 15.0
"""How long a request on the driver may take before its failure is an error that names the address."""

_logger = logging.getLogger("snapline.kafka")

_SECRET_SETTINGS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
)
"""Settings of librdkafka that are credentials: text is hidden."""

_AWAY = frozenset(
    (
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_MSG_TIMED_OUT",
        "_RESOLVE",
        "_WAIT_COORD",
        "_WAIT_CACHE",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "REQUEST_TIMED_OUT",
        "BROKER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "KAFKA_STORAGE_ERROR",
        "OFFSET_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "NOT_CONTROLLER",
        "LISTENER_NOT_FOUND",
        "CONCURRENT_TRANSACTIONS",
        "THROTTLING_QUOTA_EXCEEDED",
    )
)
_UNAUTHENTICATED = frozenset(
    ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE")
)
_FORBIDDEN = frozenset(
    (
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    )
)
_NO_TOPIC = frozenset(("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"))


class KafkaSecurity(TypedDict, total=False):
    """How to connect to a Kafka that asks who is there. All of it can be left out.

    security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL"; by default what the others ask for:
        "SASL_SSL" with a user name, "SSL" with any setting of TLS.
    sasl_mechanism: "PLAIN" by default, "SCRAM-SHA-256", "SCRAM-SHA-512", ...
    username, password: for SASL.
    ssl_ca: file of the certificates to trust, if not those of the system.
    ssl_certificate, ssl_key, ssl_key_password: files of the client's own certificate and key.
    """

    security_protocol: str
    sasl_mechanism: str
    username: str
    password: SecretLike
    ssl_ca: Path
    ssl_certificate: Path
    ssl_key: Path
    ssl_key_password: SecretLike


_NAMES: Mapping[str, str] = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password": "sasl.password",
    "ssl_ca": "ssl.ca.location",
    "ssl_certificate": "ssl.certificate.location",
    "ssl_key": "ssl.key.location",
    "ssl_key_password": "ssl.key.password",
}


class KafkaConnection:
    """The settings of a connection. It is pickled with the job; clients are made where they are needed.

    `call` is what the user wrote, for errors: `sources.Kafka('localhost:9092')`. `config` are more settings of
    librdkafka; `reserved` says, for those that a connector sets itself, what to use instead.
    """

    def __init__(
        self,
        call: str,
        bootstrap: str,
        security: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        reserved: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(bootstrap, str) or not bootstrap.strip():
            raise ConfigurationError(f"{call}: bootstrap={bootstrap!r}; give the address of a broker, 'host:9092'")
        _require_client()
        self.call = f"{call}({bootstrap!r})"
        self.bootstrap = bootstrap
        self._settings = {**self._secured(security), **self._checked(config or {}, reserved or {})}

    def __repr__(self) -> str:
        return f"KafkaConnection({self.bootstrap!r})"

    def settings(self, **own: Any) -> dict[str, Any]:
        """The configuration of a client, with credentials as they are now. `own` has underscores for dots.

        Do not show or keep it. Raises what `Secret.resolve` raises.
        """
        resolved = {
            name: value.resolve() if isinstance(value, Secret) else value for name, value in self._settings.items()
        }
        mine = {name.replace("_", "."): value for name, value in own.items()}
        return {"bootstrap.servers": self.bootstrap, "client.id": "snapline", **mine, **resolved}

    def consumer(
        self,
        error: Callable[[KafkaError], None] | None = None,
        committed: Callable[[Any, list[Any]], None] | None = None,
        **own: Any,
    ) -> Consumer:
        """A new consumer. Inside of its other calls, `error` is called with what happens to connections.

        So is `committed` with the answers to commits.
        """
        from confluent_kafka import Consumer

        calls = {} if committed is None else {"on_commit": committed}
        made: Consumer = self._made(Consumer, error, own, calls)
        return made

    def producer(
        self,
        error: Callable[[KafkaError], None] | None = None,
        lost: Callable[[KafkaError, Any], None] | None = None,
        **own: Any,
    ) -> Producer:
        """A new producer. `error` is called inside `poll` and `flush` with what happens to connections.

        `lost` is called there with each message that could not be delivered, and why.
        """
        from confluent_kafka import Producer

        more = {} if lost is None else {"on_delivery": lost, "delivery.report.only.error": True}
        made: Producer = self._made(Producer, error, own, more)
        return made

    def admin(self, error: Callable[[KafkaError], None] | None = None) -> AdminClient:
        """A new client for metadata."""
        from confluent_kafka.admin import AdminClient

        made: AdminClient = self._made(AdminClient, error, {})
        return made

    def _made(
        self,
        kind: Any,
        error: Callable[[KafkaError], None] | None,
        own: Mapping[str, Any],
        more: Mapping[str, Any] | None = None,
    ) -> Any:
        settings = {**self.settings(**own), **(more or {})}
        settings.setdefault("error_cb", error or _nothing)
        try:
            return kind(settings, logger=_ClientLog())
        except Exception as problem:
            # Not as its cause: it may quote a value.
            raise ConfigurationError(
                f"{self.call}: the client refuses its settings: {self.shown(problem)}; correct config= or the "
                "settings of security"
            ) from None

    def shown(self, error: object) -> str:
        """What an error of the client says, without credentials."""
        from confluent_kafka import KafkaException

        if isinstance(error, KafkaException) and error.args:
            error = error.args[0]
        says = getattr(error, "str", None)
        text = f"{says()} ({error.name()})" if callable(says) else str(error)  # type: ignore[attr-defined]
        values = []
        for value in self._settings.values():
            if isinstance(value, Secret):
                try:
                    values.append(value.resolve())
                except SnaplineError:
                    continue  # what cannot be had cannot be in the text
        return without_secrets(text, values)

    def error(self, problem: object, doing: str, *, is_running: bool = False) -> SnaplineError:
        """The error to raise for one of the client, a `KafkaError` or `KafkaException`, that happened while `doing`.

        What may heal is a `TransientError`: a broker that is away, and, once the job `is_running`, credentials that are
        refused, since a restart reads them anew. Anything that the user has to change is a `ConfigurationError`.
        """
        name = error_name(problem)
        begin = f"{self.call}: cannot {doing}: {self.shown(problem)}"
        if name in _AWAY:
            return TransientError(
                f"{begin}; is a broker running at {self.bootstrap}, and does its advertised listener lead there?"
            )
        if name in _UNAUTHENTICATED or name == "_SSL":
            what = "the certificates and security_protocol" if name == "_SSL" else "username, password, sasl_mechanism"
            kind = TransientError if is_running else ConfigurationError
            return kind(f"{begin}; the broker or the client refuses the connection: check {what}")
        if name in _FORBIDDEN:
            kind = TransientError if is_running else ConfigurationError
            return kind(f"{begin}; give this user the right to do so with an ACL")
        if name in _NO_TOPIC:
            return ConfigurationError(f"{begin}; create the topic, or correct its name")
        if is_retriable(problem):
            return TransientError(f"{begin}; it may help to try again")
        return UserCodeError(begin)

    def fail(self, problem: object, doing: str, *, is_running: bool = False) -> NoReturn:
        """Raise it, from the client's exception."""
        raise self.error(problem, doing, is_running=is_running) from None

    # Settings.

    def _secured(self, security: Mapping[str, Any]) -> dict[str, Any]:
        unknown = [name for name in security if name not in _NAMES]
        if unknown:
            known = ", ".join(get_type_hints(KafkaSecurity))
            raise ConfigurationError(f"{self.call}: there is no setting {unknown[0]!r}; use one of {known}, or config=")
        found: dict[str, Any] = {}
        for name, value in security.items():
            if value is None:
                continue
            if name.endswith("password"):
                found[_NAMES[name]] = Secret.of(value, name)
            elif name.startswith("ssl_"):
                found[_NAMES[name]] = path(value, name)
            elif isinstance(value, str):
                found[_NAMES[name]] = value
            else:
                raise ConfigurationError(f"{self.call}: {name}={value!r}; give text")
        if "sasl.username" in found or "sasl.password" in found:
            missing = next((name for name in ("username", "password") if _NAMES[name] not in found), None)
            if missing:
                raise ConfigurationError(f"{self.call}: {missing}= is missing; give username and password")
            found.setdefault("sasl.mechanism", "PLAIN")
        if "sasl.mechanism" in found:
            found.setdefault("security.protocol", "SASL_SSL")
        elif found:
            found.setdefault("security.protocol", "SSL")
        return found

    def _checked(self, config: Mapping[str, Any], reserved: Mapping[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in config.items():
            if not isinstance(name, str):
                raise ConfigurationError(
                    f"{self.call}: config has the name {name!r}; names are text, 'fetch.min.bytes'"
                )
            if name in ("bootstrap.servers", "metadata.broker.list"):
                raise ConfigurationError(f"{self.call}: config={{{name!r}: ...}}; give the address as bootstrap")
            if name in reserved:
                raise ConfigurationError(f"{self.call}: config={{{name!r}: ...}} is not yours to set; {reserved[name]}")
            found[name] = Secret.of(value, name) if name in _SECRET_SETTINGS else value
        return found


def error_name(problem: object) -> str:
    """The name of an error of the client, such as "_TRANSPORT"; empty for anything else."""
    inner = getattr(problem, "args", (None,))
    found = inner[0] if inner and hasattr(inner[0], "name") else problem
    name = getattr(found, "name", None)
    return str(name()) if callable(name) else ""


def is_away(problem: object) -> bool:
    """Whether an error of the client means that a broker cannot be reached or cannot serve for now."""
    return error_name(problem) in _AWAY


def is_refused(problem: object) -> bool:
    """Whether an error of the client means that credentials or rights are refused."""
    return error_name(problem) in _UNAUTHENTICATED | _FORBIDDEN | {"_SSL"}


def is_missing_topic(problem: object) -> bool:
    """Whether an error of the client means that there is no such topic or partition."""
    return error_name(problem) in _NO_TOPIC


def is_retriable(problem: object) -> bool:
    """Whether the client says that the same call may work later."""
    inner = getattr(problem, "args", (None,))
    found = inner[0] if inner and hasattr(inner[0], "retriable") else problem
    retriable = getattr(found, "retriable", None)
    return bool(callable(retriable) and retriable())


def _require_client() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"Kafka needs the package confluent-kafka: pip install 'snapline[kafka]' ({error})"
        ) from error


class _ClientLog:
    """Takes what librdkafka logs: each refused connection anew. Connectors tell of trouble in their own words."""

    def log(self, level: int, message: str, *values: Any) -> None:
        _logger.debug(message, *values)


def _nothing(error: KafkaError) -> None:
    """The client has logged it."""
