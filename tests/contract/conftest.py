"""Servers for the tests: S3 from moto on loopback, with a fresh bucket per test, and ZooKeeper."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from snapline.devtools.servers.zookeeper_server import ZooKeeperServer


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, Any]]:
    """fsspec storage options for `s3`; the server lives as long as the test session."""
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


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper server, for tests that do not disturb it."""
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
