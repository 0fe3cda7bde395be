from __future__ import annotations

import pickle
from typing import Any

import pytest

from snapline.config.secret import Secret
from snapline.config.storage_options import S3, StorageOptions, credential_values, references, resolved, s3_of_texts
from snapline.errors import ConfigurationError

KEY, SECRET = Secret.env("STORE_KEY"), Secret.env("STORE_SECRET")
VALUE = "hunter2-swordfish"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_KEY", "the-key")
    monkeypatch.setenv("STORE_SECRET", VALUE)


def test_s3_for_fsspec_holds_references() -> None:
    s3 = S3(endpoint="http://minio:9000", region="eu-west-1", key=KEY, secret=SECRET)
    assert s3.fsspec_options() == {
        "endpoint_url": "http://minio:9000",
        "key": KEY,
        "secret": SECRET,
        "client_kwargs": {"region_name": "eu-west-1"},
    }
    assert S3().fsspec_options() == {}
    assert S3(profile="jobs").fsspec_options() == {"profile": "jobs"}
    assert VALUE not in f"{s3} {s3!r}"


def test_s3_for_object_store_is_resolved() -> None:
    s3 = S3(endpoint="http://minio:9000", region="eu-west-1", key=KEY, secret=SECRET, token="t0ken")
    assert s3.object_store_options() == {
        "aws_endpoint_url": "http://minio:9000",
        "aws_region": "eu-west-1",
        "aws_access_key_id": "the-key",
        "aws_secret_access_key": VALUE,
        "aws_session_token": "t0ken",
        "aws_allow_http": "true",
    }
    assert S3(endpoint="https://store").object_store_options() == {"aws_endpoint_url": "https://store"}
    assert "t0ken" not in repr(s3)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"key": KEY}, "is of no use without `secret`"),
        ({"secret": SECRET}, "is of no use without `key`"),
        ({"token": SECRET}, "is part of temporary credentials"),
        ({"profile": "jobs", "key": KEY, "secret": SECRET}, "stands in place of `key` and `secret`"),
        ({"endpoint": "minio:9000"}, "endpoint='minio:9000': not the URL of a server; give one such as http://"),
        ({"endpoint": f"http://me:{VALUE}@minio"}, "holds a user or password; give `key` and `secret` instead"),
        ({"region": ""}, "region='': give a name, or leave it out"),
        ({"key": 3, "secret": SECRET}, "key: a int; give a Secret"),
    ],
)
def test_wrong_options_of_s3(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        S3(**given)
    assert complaint in str(caught.value)
    assert VALUE not in str(caught.value)


def test_options_by_scheme() -> None:
    s3 = S3(key=KEY, secret=SECRET)
    assert (
        StorageOptions.of(s3) == StorageOptions({"S3": s3}) == StorageOptions.of({"s3": {"key": KEY, "secret": SECRET}})
    )
    assert hash(StorageOptions.of(s3)) == hash(StorageOptions({"s3": s3}))
    assert StorageOptions.of(s3) != StorageOptions.of(S3(key=KEY, secret=KEY))
    assert not StorageOptions.of(None)
    given = StorageOptions({"hdfs": {"user": "jobs"}, "s3": s3})
    assert StorageOptions.of(given) is given
    assert given.with_s3(S3(region="x")).schemes == {
        "hdfs": {"user": "jobs"},
        "s3": {"key": KEY, "secret": SECRET, "client_kwargs": {"region_name": "x"}},
    }
    wrong: Any
    for wrong in (7, "s3", {"s3": "x"}, {1: {}}):
        with pytest.raises(ConfigurationError, match=r'\{"hdfs": \{"user": "jobs"\}\}'):
            StorageOptions.of(wrong)


def test_plain_credentials_are_hidden_too() -> None:
    options = StorageOptions({"s3": {"secret": VALUE, "client_kwargs": {"aws_session_token": VALUE}, "use_ssl": False}})
    assert VALUE not in f"{options} {options.schemes}"
    assert repr(options) == "StorageOptions(s3: secret client_kwargs use_ssl)"
    plain = {"secret": VALUE, "client_kwargs": {"aws_session_token": VALUE}, "use_ssl": False}
    assert resolved(options.schemes["s3"]) == plain
    assert list(credential_values(plain)) == [VALUE, VALUE]
    assert list(references(options.schemes["s3"])) == ["secret=Secret(***)", "aws_session_token=Secret(***)"]


def test_they_travel_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    options = StorageOptions.of(S3(key=KEY, secret=SECRET))
    options.check()
    data = pickle.dumps(options)
    assert VALUE.encode() not in data
    assert pickle.loads(data) == options
    monkeypatch.delenv("STORE_SECRET")
    with pytest.raises(ConfigurationError, match=r"Secret.env\('STORE_SECRET'\) is not set"):
        pickle.loads(data).check()


def test_options_as_text() -> None:
    texts = {"endpoint": "http://minio:9000", "key": "env:STORE_KEY", "secret": "file:/run/secret"}
    assert s3_of_texts(texts) == S3(endpoint="http://minio:9000", key=KEY, secret=Secret.file("/run/secret"))
    for secret in (VALUE, f"plain:{VALUE}", "env:"):
        with pytest.raises(ConfigurationError, match="secret: not a reference; write env:NAME or file:PATH") as caught:
            s3_of_texts({**texts, "secret": secret})
        assert VALUE not in str(caught.value)
    with pytest.raises(ConfigurationError, match="S3 has no option 'user'; use one of endpoint, region, key"):
        s3_of_texts({"user": "me"})
