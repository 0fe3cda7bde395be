"""The data source that a user gives: its options, its instances, and errors of its methods."""

from __future__ import annotations

from typing import Any

import cloudpickle
import pytest
from pyspark.sql.datasource import DataSource

import snapline as sl
from snapline.connectors.data_source.user_data_source import UserDataSource
from snapline.errors import ConfigurationError, UserCodeError


class Plain(DataSource):
    pass


class Picky(DataSource):
    def __init__(self, options: object) -> None:
        raise RuntimeError("no path")


def test_options_reach_it_as_text_with_names_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_TESTS", "abc")
    given: dict[str, Any] = {
        "Path": "/x",
        "rows": 3,
        "Fast": True,
        "rate": 0.5,
        "token": sl.Secret.env("TOKEN_OF_TESTS"),
    }
    user = cloudpickle.loads(cloudpickle.dumps(UserDataSource(Plain, given, "it")))
    options = user.made().options
    assert [options[name] for name in ("PATH", "Rows", "fast", "RATE", "token")] == ["/x", "3", "true", "0.5", "abc"]


def test_an_instance_is_taken_as_it_is() -> None:
    instance = Plain({"a": "b"})
    assert UserDataSource(instance, None, "it").made() is instance


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        (42, None, r"it\(42\): give a class derived from pyspark.sql.datasource.DataSource"),
        (dict, None, "give a class derived"),
        (Plain({}), {"a": "b"}, "an instance has its own options"),
        (Plain, {1: "b"}, "1 is not the name of an option"),
        (Plain, {"a": None}, "'a' is a NoneType; give text"),
    ],
)
def test_what_cannot_be_used_is_refused(given: object, options: object, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        UserDataSource(given, options, "it")  # type: ignore[arg-type]


def test_errors_name_the_class_and_the_call() -> None:
    with pytest.raises(UserCodeError, match=r"it\(Picky\): __init__\(\) raised RuntimeError: no path"):
        UserDataSource(Picky, None, "it").made()
