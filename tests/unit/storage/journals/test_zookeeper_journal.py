"""A ZooKeeper journal without a server; `tests/contract/test_journals.py` runs it against a real one."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from snapline.errors import ConfigurationError, StorageError
from snapline.protocol.journal import Record, RecordKind
from snapline.storage.journals.zookeeper_journal import ZooKeeperJournal

CLAIM = Record(RecordKind.CLAIM, 1, "me")


def test_no_zookeeper_at_all_is_an_error_at_once_that_says_what_to_check() -> None:
    journal = ZooKeeperJournal("127.0.0.1:1,[::1]:1", "/snapline/job", timeout_ms=60_000)
    begin_s = time.monotonic()
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:1: Connection refused; .* check the address, and") as caught:
        journal.create(CLAIM)
    assert not caught.value.possibly_inconsistent
    journal.close()
    journal.close()
    assert time.monotonic() - begin_s < 10
    with pytest.raises(StorageError, match="is closed"):
        journal.read()


def test_a_server_that_accepts_and_does_not_answer_is_given_the_whole_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        journal = ZooKeeperJournal(f"127.0.0.1:{port}", "/snapline/job", timeout_ms=300)
        with pytest.raises(StorageError, match=r"after 0\.3 s; check the address") as caught:
            journal.create(CLAIM)
        assert not caught.value.possibly_inconsistent
        journal.close()


def test_zookeeper_without_its_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'snapline\[zookeeper\]'"):
        ZooKeeperJournal("127.0.0.1:1", "/snapline/job")


@pytest.mark.parametrize("path", ["snapline", "/snapline/"])
def test_an_invalid_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="use one like"):
        ZooKeeperJournal("127.0.0.1:1", path)


def test_a_timeout_below_one_millisecond_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="use at least 1"):
        ZooKeeperJournal("127.0.0.1:1", "/snapline/job", timeout_ms=0)


def test_credentials_are_not_shown() -> None:
    journal = ZooKeeperJournal("127.0.0.1:1", "/snapline/job", auth=("digest", "user:s3cr3t"))
    assert repr(journal) == "ZooKeeperJournal('127.0.0.1:1', '/snapline/job')"
