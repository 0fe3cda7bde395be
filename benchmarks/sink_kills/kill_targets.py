"""The exactly-once sinks, where each writes to, and how a reader sees its rows."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.sink_kills.deadly_sink import POINTS, ZOMBIE

import snapline as sl
from snapline.contracts.sink import Sink


class Target(ABC):
    """One sink. A place is plain data that says where a round writes to."""

    points: ClassVar[tuple[str, ...]] = POINTS
    disturbances: ClassVar[tuple[str, ...]] = ()

    @property
    def has_zombie(self) -> bool:
        return ZOMBIE in self.points

    @abstractmethod
    @contextlib.contextmanager
    def places(self, root: Path) -> Iterator[Any]:
        """Start what the sink needs; yields a function that makes a new, empty place for each round."""

    @abstractmethod
    def make_sink(self, place: Any) -> Sink: ...

    @abstractmethod
    def read(self, place: Any) -> list[int]:
        """All rows that a reader sees now."""

    def disturb(self, what: str, place: Any, log: list[str]) -> None:  # noqa: B027
        """Do something to the server while a round runs."""


class FilesTarget(Target):
    @contextlib.contextmanager
    def places(self, root: Path) -> Iterator[Any]:
        yield lambda number: str(root / f"out-{number}")

    def make_sink(self, place: Any) -> Sink:
        return sl.sinks.Files(place)

    def read(self, place: Any) -> list[int]:
        path = Path(place)
        table = sl.sinks.read_files(path) if path.exists() else None
        found: list[int] = [] if table is None or not table.num_columns else table["id"].to_pylist()
        return found


TARGETS: dict[str, Target] = {"files": FilesTarget()}
