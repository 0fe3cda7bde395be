"""The Kafka sink and the rights of its user: each one that is missing is named, and once it is there, all goes on."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.integration.kafka.kafka_sink_kit import Task
from tests.integration.kafka.source_kit import eventually
from tests.servers_kit import or_skip

import snapline as sl
from snapline.connectors.kafka import kafka_transactions
from snapline.contracts.sink import CommitResult, Committable
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.errors import ConfigurationError, TransientError

pytestmark = pytest.mark.slow

_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_USERS = 'username="admin" password="admin-word" user_admin="admin-word" user_writer="writer-word"'


class StrictKafka(KafkaServer):
    """A broker where the user `writer` may do only what it was allowed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            directory,
            **{
                "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.plaintext.plain.sasl.jaas.config": f"{_LOGIN} {_USERS};",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:admin;User:ANONYMOUS",
            },
        )

    def admin(self) -> AdminClient:
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin-word",
        }
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **login})

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation, prefix: bool = False) -> None:
        admin = self.admin()
        for made in admin.create_acls(self._bindings(kind, name, operations, prefix)).values():
            made.result(30)

    def deny(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        admin = self.admin()
        (denied,) = self._bindings(kind, name, (operation,), False, AclPermissionType.DENY)
        admin.create_acls([denied])[denied].result(30)

    def deny_no_more(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        admin = self.admin()
        chosen = AclBindingFilter(
            kind, name, ResourcePatternType.LITERAL, "User:writer", "*", operation, AclPermissionType.DENY
        )
        admin.delete_acls([chosen])[chosen].result(30)

    def _bindings(
        self,
        kind: ResourceType,
        name: str,
        operations: tuple[AclOperation, ...],
        prefix: bool,
        permission: AclPermissionType = AclPermissionType.ALLOW,
    ) -> list[Any]:
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        return [AclBinding(kind, name, pattern, "User:writer", "*", each, permission) for each in operations]


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[StrictKafka]:
    with or_skip(StrictKafka(tmp_path / "kafka")) as server:
        yield server


def test_rights(strict: StrictKafka, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strict.create_topic(topic)

    def sink(password: str = "writer-word", **settings: Any) -> sl.Sink:
        login: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "username": "writer", "password": password}
        return sl.sinks.Kafka(strict.bootstrap, topic, **login, **settings)

    def refused(sink: sl.Sink) -> str:
        try:
            sink.check_access()
        except ConfigurationError as error:
            return str(error)
        return ""

    # Brokers learn of rights a moment later.
    problem = refused(sink("wrong-word"))
    assert "check username, password, sasl_mechanism" in problem
    assert "wrong-word" not in problem
    problem = refused(sink())
    assert f"no topic '{topic}'" in problem
    assert "check that this user may describe it" in problem

    strict.allow(ResourceType.TOPIC, topic, AclOperation.WRITE, AclOperation.DESCRIBE)
    eventually(lambda: re.search(r"'snapline-commits'.*may not be created.*create it by hand", refused(sink())))
    assert not refused(sink(guarantee="at_least_once"))

    strict.create_topic("snapline-commits", 16, cleanup__policy="compact")
    strict.allow(ResourceType.TOPIC, "snapline-commits", AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
    eventually(lambda: "transactional ids with the prefix 'snapline/'" in refused(sink()))

    ids = ResourceType.TRANSACTIONAL_ID
    strict.allow(ids, "snapline/", AclOperation.WRITE, AclOperation.DESCRIBE, prefix=True)
    eventually(lambda: not refused(sink()))
    task = Task(sink(), f"line-{uuid.uuid4().hex}")
    assert task.commit_until_done(task.prepared(1, 1)) == [CommitResult.COMMITTED]

    # Rights, and passwords, can be taken away while a job runs: that may heal, and the rows are still there.
    prepared: list[Committable] = []
    checkpoints = itertools.count(2)

    def is_denied() -> bool:
        try:
            prepared[:] = task.prepared(checkpoint := next(checkpoints), checkpoint)
            task.commit_until_done(prepared)
        except TransientError as error:
            return "give this user the right to do so with an ACL" in str(error)
        return False

    def is_allowed() -> bool:
        try:
            return task.commit_until_done(prepared) == [CommitResult.COMMITTED]
        except TransientError:
            return False

    strict.deny(ResourceType.TOPIC, topic, AclOperation.WRITE)
    eventually(is_denied)
    strict.deny_no_more(ResourceType.TOPIC, topic, AclOperation.WRITE)
    eventually(is_allowed)
    monkeypatch.setattr(kafka_transactions, "REQUEST_TIMEOUT_S", 1.0)
    expired = Task(sink("old-word"), f"line-{uuid.uuid4().hex}")
    with pytest.raises(TransientError, match="check username, password, sasl_mechanism"):
        expired.commit_until_done(expired.prepared(1, 1))
    task.close()
