"""Expressions whose value is a property of the session; Spark makes constants of them when it optimises a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_VALUES: Final[Mapping[str, str]] = {
    "CurrentCatalog": "current_catalog()",
    "CurrentDatabase": "current_database()",
    "CurrentPath": "current_path()",
    "CurrentTimeZone": "current_timezone()",
    "CurrentUser": "current_user()",
    "SparkVersion": "version()",
}
"""How to ask Spark for the value of each class of these expressions."""


def session_value(session: SparkSession, kind: str) -> str:
    """What the session says: a text for each of them."""
    row = session.sql(f"SELECT {SESSION_VALUES[kind]}").first()
    assert row is not None
    return str(row[0])
