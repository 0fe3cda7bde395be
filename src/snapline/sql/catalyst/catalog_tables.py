"""Tables of Spark's catalog that are directories of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

_IN_CATALOG: Final = "spark.sql.hive.manageFilesourcePartitions"
"""Whether a new table has only those partitions that the catalog has been told of: a setting of Spark."""


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Where the files of a table are, what they are, and the columns of its directories."""

    path: str
    format: str
    partitions: tuple[str, ...]


def create_table(rows: DataFrame, name: str, format: str, partitions: Sequence[str]) -> None:
    """An empty table for rows like these. Its partitions are what its directories are: nobody has to add them."""
    kinds = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    columns = ", ".join(f"{_quoted(column)} {kind}" for column, kind in kinds.items())
    by = f" PARTITIONED BY ({', '.join(map(_quoted, partitions))})" if partitions else ""
    settings = rows.sparkSession.conf
    before = settings.get(_IN_CATALOG, "true")
    settings.set(_IN_CATALOG, "false")
    try:
        rows.sparkSession.sql(f"CREATE TABLE {name} ({columns}) USING {format}{by}")
    finally:
        settings.set(_IN_CATALOG, before or "true")


def table_files(session: SparkSession, name: str) -> TableFiles:
    """Raises Spark's own error if there is no such table."""
    described = session.sql(f"DESCRIBE FORMATTED {name}").collect()
    facts = {row[0].strip(): row[1] for row in described}
    path = unquote(str(facts.get("Location", ""))).removeprefix("file://").removeprefix("file:")
    columns = [column.name for column in session.catalog.listColumns(name) if column.isPartition]
    return TableFiles(path, str(facts.get("Provider", "")).lower(), tuple(columns))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
