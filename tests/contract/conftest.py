"""S3 for the tests: a moto server on loopback, with a fresh bucket for every test that asks for one. And ZooKeeper."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from snapline.devtools.servers.zookeeper_server import ZooKeeperServer


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, Any]]:
    """Storage options of fsspec for the scheme `s3`; the server behind them lives as long as the test session."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    # One request at a time: moto looks whether an object is there and then puts it, which S3 does in one step.
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
    """A client of the server that is not ours: to prepare buckets and to look at what is in them."""
    import s3fs

    return s3fs.S3FileSystem(**s3_options, skip_instance_cache=True, use_listings_cache=False)


@pytest.fixture
def s3_root(s3_client: Any) -> str:
    """`s3://` and the name of a fresh, empty bucket."""
    bucket = f"bucket-{uuid.uuid4().hex}"
    s3_client.call_s3("create_bucket", Bucket=bucket)
    return f"s3://{bucket}"


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper server, for all tests that do it no harm."""
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
