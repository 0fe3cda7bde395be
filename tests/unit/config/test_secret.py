from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from snapline.config.secret import MAX_FILE_BYTES, Secret, without_secrets
from snapline.errors import ConfigurationError, TransientError, UserCodeError, is_of_environment

VALUE = "hunter2-swordfish"


def from_vault() -> str:
    return VALUE


def test_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret.env("STORE_KEY")
    monkeypatch.setenv("STORE_KEY", VALUE)
    assert secret.resolve() == VALUE
    monkeypatch.setenv("STORE_KEY", "rotated")
    assert secret.resolve() == "rotated"


def test_a_file_without_the_space_around_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{VALUE}\n")
    assert Secret.file(tmp_path / "key").resolve() == VALUE
    assert Secret.file(str(tmp_path / "key")).resolve() == VALUE


def test_a_function() -> None:
    assert Secret.call(from_vault).resolve() == VALUE


def test_plain_text_is_wrapped() -> None:
    assert Secret.of(VALUE, "password").resolve() == VALUE
    assert Secret.of(VALUE, "password").is_given
    assert not Secret.env("A").is_given
    by_reference = Secret.env("A")
    assert Secret.of(by_reference, "password") is by_reference


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        (Secret.of(VALUE, "password"), "Secret(***)"),
        (Secret.env("STORE_KEY"), "Secret.env('STORE_KEY')"),
        (Secret.file("/run/secrets/key"), "Secret.file('/run/secrets/key')"),
        (Secret.call(from_vault), "Secret.call(from_vault)"),
    ],
)
def test_the_value_is_never_shown(secret: Secret, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_KEY", VALUE)
    assert [repr(secret), str(secret), f"{secret}", f"{secret!s}", "%s" % secret] == [shown] * 5  # noqa: UP031
    assert f"{[secret]} { ({'k': secret}) }".count(VALUE) == 0
    assert f"{secret:>40}".strip() == shown


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_only_the_reference_travels(pickler: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STORE_KEY", VALUE)
    (tmp_path / "key").write_text(VALUE)
    for secret in (Secret.env("STORE_KEY"), Secret.file(tmp_path / "key")):
        secret.resolve()
        data = pickler.dumps(secret)
        assert VALUE.encode() not in data
        assert pickle.loads(data) == secret
        assert pickle.loads(data).resolve() == VALUE
    assert pickle.loads(pickler.dumps(Secret.of(VALUE, "password"))).resolve() == VALUE


def test_equal_references_are_equal() -> None:
    assert Secret.env("A") == Secret.env("A")
    assert len({Secret.env("A"), Secret.env("A"), Secret.file("A"), Secret.of("A", "a")}) == 3
    assert Secret.of("A", "a") != "A"


def test_a_missing_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STORE_KEY", raising=False)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "long").write_text("x" * (MAX_FILE_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff" + VALUE.encode())
    for secret, problem in (
        (Secret.env("STORE_KEY"), r"Secret.env\('STORE_KEY'\) is not set; set it for the driver and every executor"),
        (Secret.file(tmp_path / "none"), r"Secret.file\('.*none'\) cannot be read \(No such file or directory\)"),
        (Secret.file(tmp_path / "empty"), "is empty; write the credential into it"),
        (Secret.file(tmp_path / "long"), "has more than 65536 characters"),
        (Secret.file(tmp_path / "binary"), "is not UTF-8 text"),
    ):
        with pytest.raises(ConfigurationError, match=problem) as caught:
            secret.resolve()
        assert VALUE not in str(caught.value) + repr(caught.value.__cause__)


def test_a_function_that_fails() -> None:
    def broken() -> str:
        raise ConnectionError("vault is away")

    def wrong() -> str:
        return None  # type: ignore[return-value]

    def away() -> str:
        raise TransientError("vault is sealed")

    with pytest.raises(UserCodeError, match=r"broken.* raised ConnectionError") as caught:
        Secret.call(broken).resolve()
    assert is_of_environment(caught.value)
    with pytest.raises(UserCodeError, match="returned NoneType; it must return the credential as text"):
        Secret.call(wrong).resolve()
    with pytest.raises(TransientError, match="vault is sealed"):
        Secret.call(away).resolve()


def test_wrong_references() -> None:
    wrong: list[tuple[Callable[[Any], object], Any]] = [
        (Secret.env, ""),
        (Secret.env, "A=B"),
        (Secret.file, ""),
        (Secret.file, 3),
        (Secret.call, "x"),
    ]
    for make, given in wrong:
        with pytest.raises(ConfigurationError):
            make(given)
    with pytest.raises(ConfigurationError, match="a Secret needs a place"):
        Secret()
    with pytest.raises(ConfigurationError, match=r"password: empty; give a Secret, such as Secret.env\('PASSWORD'\)"):
        Secret.of("", "password")
    with pytest.raises(ConfigurationError, match="password: a bytes; give a Secret") as caught:
        Secret.of(VALUE.encode(), "password")  # type: ignore[arg-type]
    assert VALUE not in str(caught.value)


def test_values_are_taken_out_of_messages() -> None:
    assert without_secrets(f"no user {VALUE}, {VALUE}x", [VALUE, f"{VALUE}x", "", "n"]) == "no user ***, ***"


def test_a_reference_says_where_the_value_is_and_never_what_it_is() -> None:
    def read_vault() -> str:
        return "value"

    assert Secret.env("KEY").reference == "env:KEY"
    assert Secret.file("/run/key").reference == "file:/run/key"
    assert Secret.call(read_vault).reference.endswith("read_vault")
    assert Secret.of("value", "key").reference == "***"
