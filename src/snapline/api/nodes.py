"""The logical graph of a job: what the user has put together, before it is checked as a whole and planned."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from snapline.api.operator import Operator
from snapline.api.source import Source
from snapline.types import Partitioning


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """Rows of `node` on their way to another one. Those with the same `index` arrive there as one stream."""

    node: Node
    partitioning: Partitioning = Partitioning.FORWARD
    key_columns: tuple[str, ...] = ()
    index: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operator of the logical graph.

    `schema` is that of what it emits, none for a sink. `key_columns` are what its input is keyed by, if it is.
    `parallelism` is none unless the user set it here, and `uid` none if the user gave none. `source` is set for a
    source only.
    """

    name: str
    operator: Operator
    uid: str | None
    inputs: tuple[Input, ...]
    schema: pa.Schema | None
    key_columns: tuple[str, ...] = ()
    parallelism: int | None = None
    has_state: bool = False
    is_sink: bool = False
    source: Source | None = None

    @property
    def needs_uid(self) -> bool:
        """Whether something in checkpoints or outside is filed under its uid, so that the user has to choose it."""
        return self.has_state or self.is_sink or self.source is not None

    def __str__(self) -> str:
        return self.name if self.uid is None else f"{self.name} {self.uid!r}"
