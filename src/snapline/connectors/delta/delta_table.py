"""What a sink asks of its table: that it is there, and has columns for the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.connectors.delta.delta_place import DeltaPlace, load_deltalake
from snapline.connectors.delta.delta_types import check_partition_columns, fitted
from snapline.errors import ConfigurationError

if TYPE_CHECKING:
    from deltalake import DeltaTable

DEFAULT_PROPERTIES = {"delta.logRetentionDuration": "interval 7 days"}
"""Of tables that a sink creates. Other writers keep 30 days, which at one commit in 10 s is a log of 260,000 files."""

_TRIES = 10
"""How often a change of the table starts over because somebody else has changed it."""


def arrow_schema(table: DeltaTable) -> pa.Schema:
    """The columns of a table."""
    return pa.schema(table.schema().to_arrow())


@dataclass(frozen=True, slots=True)
class TableRules:
    """How a sink writes its table; travels with the job."""

    what: str
    mode: str
    key: tuple[str, ...]
    partition_by: tuple[str, ...] | None
    may_add: bool
    may_create: bool
    description: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def ready(self, place: DeltaPlace, rows: pa.Schema) -> None:
        """Make the table fit for rows of this schema; create it if there is none. `ConfigurationError` if it cannot."""
        table = place.find()
        if table is None:
            table = self._created(place, rows)
        check_table(table, self.what, mode=self.mode)
        there = tuple(table.metadata().partition_columns)
        if self.partition_by is not None and there != self.partition_by:
            raise ConfigurationError(
                f"{self.what}: the table is partitioned by {list(there)}, not by {list(self.partition_by)}; leave out "
                "partition_by, or write to another table"
            )
        if missing := [name for name in there if name not in rows.names]:
            raise ConfigurationError(
                f"{self.what}: the table is partitioned by {missing[0]!r}, and the rows have no such column; add it "
                "with map_batches()"
            )
        check_partition_columns(there, fitted(rows, arrow_schema(table), self.what, may_add=self.may_add)[0], self.what)
        conflicts = load_deltalake().exceptions.CommitFailedError
        for rest in reversed(range(_TRIES)):
            try:
                self.make_room(table, [rows])
                break
            except conflicts as error:
                if not rest:
                    raise place.failed("could not be given new columns", error) from error
                table.update_incremental()

    def make_room(self, table: DeltaTable, schemas: Sequence[pa.Schema]) -> None:
        """Add the columns that the table lacks. Raises `ConfigurationError` if rows of a schema do not fit it.

        The table may have been changed since the job started. Raises the library's `CommitFailedError` if it is being
        changed right now.
        """
        for rows in schemas:
            _, new = fitted(rows, arrow_schema(table), self.what, may_add=self.may_add)
            if new:
                deltalake = load_deltalake()
                table.alter.add_columns(
                    list(deltalake.Schema.from_arrow(pa.schema(new)).fields),
                    commit_properties=deltalake.CommitProperties(max_commit_retries=0),
                )
                table.update_incremental()

    def _created(self, place: DeltaPlace, rows: pa.Schema) -> DeltaTable:
        if not self.may_create:
            raise ConfigurationError(f"{place.missing()}; or let the sink create it with create=True")
        if place.is_local and place.objects.list(place.path):
            raise ConfigurationError(
                f"{self.what}: the directory has files and is not a Delta table; use an empty one, or make a table of "
                "it with deltalake.convert_to_deltalake()"
            )
        deltalake = load_deltalake()
        with place.explained("cannot be created"):
            table: DeltaTable = deltalake.DeltaTable.create(
                place.path,
                deltalake.Schema.from_arrow(rows),
                mode="ignore",
                partition_by=list(self.partition_by or ()) or None,
                description=self.description,
                configuration={**DEFAULT_PROPERTIES, **self.properties},
                storage_options=place.library_options(),
            )
        return table


def check_table(table: DeltaTable, what: str, *, mode: str) -> None:
    """Raise `ConfigurationError` for a table whose rules files written here would not keep."""
    configuration = table.metadata().configuration
    problem = None
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        problem = "maps its columns to other names (delta.columnMapping.mode)"
    elif any(name.startswith("delta.constraints.") for name in configuration) and mode == "append":
        problem = "has CHECK constraints, which appended files are not checked against"
    elif configuration.get("delta.appendOnly", "false").lower() == "true" and mode == "upsert":
        problem = "takes no changes (delta.appendOnly)"
    else:
        for column in json.loads(table.schema().to_json())["fields"]:
            rules = [name for name in column.get("metadata", {}) if _is_rule(name)]
            if rules and mode == "append":
                problem = f"computes or checks the column {column['name']!r} ({rules[0]})"
    if problem is not None:
        raise ConfigurationError(f"{what}: the table {problem}; write to another table, or take that off")


def _is_rule(name: str) -> bool:
    return name.startswith(("delta.generationExpression", "delta.identity", "delta.invariants"))


def plain_schema(schema: pa.Schema) -> bytes:
    """The schema as bytes, for payloads."""
    packed: Any = schema.serialize()
    return bytes(packed.to_pybytes())
