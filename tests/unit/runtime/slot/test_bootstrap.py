"""What an operator process gets from its supervisor, and how it ends with it."""

from __future__ import annotations

import io
import os
import threading

import msgspec
import pytest

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.slot import bootstrap as boot
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.wire.credentials import Credentials

BOOTSTRAP = Bootstrap(
    job_id="job",
    generation=1,
    slot=2,
    incarnation=3,
    driver_host="driver",
    driver_port=4,
    credentials=Credentials(b"hush-hush", Encryption.TLS, b"hush", b"hush"),
    host="node",
    heartbeat_interval_ms=5,
    heartbeat_timeout_ms=6,
    parent_pid=7,
    sys_path=["a", ""],
    shipment=b"code" * 1000,
)


def test_it_arrives_as_it_was_and_leaves_what_follows_in_the_pipe() -> None:
    stream = io.BytesIO()
    BOOTSTRAP.write(stream)
    stream.write(b"more")
    stream.seek(0)
    assert boot.read(stream) == BOOTSTRAP
    assert stream.read() == b"more"


def test_no_log_shows_the_secret() -> None:
    assert "hush" not in repr(BOOTSTRAP)
    assert "hush" not in str(BOOTSTRAP)
    assert "hush" not in repr(BOOTSTRAP.credentials)


@pytest.mark.parametrize("length", [0, 5, 100])
def test_a_pipe_that_ends_early_is_noticed(length: int) -> None:
    with pytest.raises(PeerError, match="pipe ended after"):
        boot.read(io.BytesIO(BOOTSTRAP.encoded()[:length]))


def test_something_else_in_the_pipe_is_refused() -> None:
    body = msgspec.msgpack.encode({"job_id": 1})
    with pytest.raises(PeerError, match="Expected `str`"):
        boot.read(io.BytesIO(len(body).to_bytes(8, "big") + body))


def test_nobody_waits_for_more_than_the_limit() -> None:
    with pytest.raises(PeerError, match="more than"):
        boot.read(io.BytesIO((boot.MAX_BOOTSTRAP_BYTES + 1).to_bytes(8, "big")))


def test_the_end_of_the_pipe_is_the_end_of_the_supervisor() -> None:
    reader, writer = os.pipe()
    is_gone = threading.Event()
    with os.fdopen(reader, "rb", buffering=0) as stream:
        thread = boot.watch_parent(stream, is_gone.set)
        os.write(writer, b"x")
        assert not is_gone.is_set()
        os.close(writer)
        assert is_gone.wait(10)
        thread.join(10)
