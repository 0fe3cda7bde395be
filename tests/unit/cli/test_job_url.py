"""URLs that people paste."""

from __future__ import annotations

import pytest

from snapline.cli.job_url import ServerUrl, same_job
from snapline.cli.usage import UsageError


@pytest.mark.parametrize(
    ("url", "base", "parts"),
    [
        ("http://127.0.0.1:4300", "http://127.0.0.1:4300", ()),
        ("http://127.0.0.1:4300/#/jobs/00ab/checkpoints", "http://127.0.0.1:4300", ("jobs", "00ab", "checkpoints")),
        ("https://proxy/driver-1/index.html#/jobs/a%20b", "https://proxy/driver-1", ("index.html", "jobs", "a b")),
        ("http://host:1/snapline/jobs/clicks", "http://host:1", ("snapline", "jobs", "clicks")),
        ("http://[::1]:4300/v1/jobs/00ab", "http://[::1]:4300", ("v1", "jobs", "00ab")),
    ],
)
def test_a_url_is_taken_apart(url: str, base: str, parts: tuple[str, ...]) -> None:
    assert ServerUrl.parse(url) == ServerUrl(base, parts)


@pytest.mark.parametrize("url", ["http://", "ftp://host", "host:4300", "http://host:port", "http://[::1"])
def test_what_is_no_url_of_a_server(url: str) -> None:
    with pytest.raises(UsageError, match="is no URL of a job"):
        ServerUrl.parse(url)


@pytest.mark.parametrize("url", ["http://h/?token=s3cret", "http://u:s3cret@h/", "http://h/#/?token=s3cret"])
def test_a_token_does_not_belong_on_the_command_line(url: str) -> None:
    with pytest.raises(UsageError, match="--token-file") as raised:
        ServerUrl.parse(url)
    assert "s3cret" not in str(raised.value)


def test_a_job_is_known_by_both_ids() -> None:
    row = {"job_id": "clicks", "jid": "00ab"}
    assert same_job(row, "clicks")
    assert same_job(row, "00ab")
    assert not same_job(row, "orders")
