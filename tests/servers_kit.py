"""Fixtures with real servers, for the tests of every folder. Each worker of pytest has its own, from the first use on.

A server that cannot be had skips its tests and says what to install; with SNAPLINE_REQUIRE_SERVERS=1, as in
`.ci/run`, they fail instead.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.devtools.servers.postgres_server import PostgresServer
from snapline.devtools.servers.server_process import ServerProcess
from snapline.devtools.servers.servers_command import REQUIRE
from snapline.devtools.servers.zookeeper_server import ZooKeeperServer
from snapline.errors import ConfigurationError

Server = TypeVar("Server", bound=ServerProcess)


@contextlib.contextmanager
def or_skip(server: Server) -> Iterator[Server]:
    """`with or_skip(KafkaServer(tmp_path)) as kafka:` for tests that disturb a server and so need their own."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(server)
        except ConfigurationError as error:
            if os.environ.get(REQUIRE) == "1":
                raise
            pytest.skip(str(error))
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A Kafka broker, for tests that do not disturb it. It creates no topics by itself."""
    with or_skip(KafkaServer(tmp_path_factory.mktemp("kafka"))) as server:
        yield server


@pytest.fixture
def topic() -> str:
    """A name that no other test uses; `kafka.create_topic(topic)` makes a topic of it."""
    return f"topic-{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL server, for tests that do not disturb it."""
    with or_skip(PostgresServer(tmp_path_factory.mktemp("postgres"))) as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The address of a fresh, empty database of `postgres`."""
    return postgres.create_database(f"database_{uuid.uuid4().hex}")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper server, for tests that do not disturb it."""
    with or_skip(ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))) as server:
        yield server


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, Any]]:
    """fsspec storage options for `s3`; the server, moto on loopback, lives as long as the test session."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    # One request at a time: moto checks and creates an object in two steps, S3 in one.
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    thread = threading.Thread(target=server.serve_forever, name="moto", daemon=True)
    thread.start()
    yield {
        "key": "fake-access-key",
        "secret": "fake-secret-key",
        "endpoint_url": f"http://127.0.0.1:{server.server_port}",
        "client_kwargs": {"region_name": "us-east-1"},
    }
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def s3_client(s3_options: dict[str, Any]) -> Any:
    """An independent client, to prepare and inspect buckets."""
    import s3fs

    return s3fs.S3FileSystem(**s3_options, skip_instance_cache=True, use_listings_cache=False)


@pytest.fixture
def s3_root(s3_client: Any) -> str:
    """The URL of a fresh, empty bucket."""
    bucket = f"bucket-{uuid.uuid4().hex}"
    s3_client.call_s3("create_bucket", Bucket=bucket)
    return f"s3://{bucket}"
