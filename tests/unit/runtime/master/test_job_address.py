"""Addresses of jobs as files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snapline.runtime.master.job_address import JobAddress, jobs_directory, snapline_home, stored_address

ADDRESS = JobAddress("clicks", "Clicks", "http://127.0.0.1:4300/#/jobs/00", None, "host", 12, 1_700_000_000_000, "/chk")


def test_an_address_survives_its_file() -> None:
    for address in (ADDRESS, replace(ADDRESS, token_file="/t", storage=None, name="Ünïcode")):
        assert JobAddress.decode(address.encode()) == address
    assert json.loads(ADDRESS.encode())["version"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"url": 1},
        {"pid": "12"},
        {"pid": 0},
        {"started_ms": None},
        {"token_file": 1},
        {"job_id": ""},
        {"job_id": "../x"},
        {"name": None},
    ],
)
def test_what_is_no_address(change: dict[str, Any]) -> None:
    assert JobAddress.decode(json.dumps({**json.loads(ADDRESS.encode()), **change}).encode()) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"null"])
def test_what_is_no_document(data: bytes) -> None:
    assert JobAddress.decode(data) is None


def test_where_addresses_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path))
    assert jobs_directory() == tmp_path / "jobs"
    monkeypatch.setenv("SNAPLINE_HOME", " ")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert snapline_home() == tmp_path / ".snapline"
    assert stored_address("s3://bucket/chk/", "clicks") == "s3://bucket/chk/clicks/monitor/address.json"
