"""A data source of PySpark that writes files and shows them in its commit, as a user might write one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage


@dataclass
class Staged(WriterCommitMessage):
    name: str


class StagedLines(DataSource):
    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return StagedWriter(Path(self.options["path"]))


class StagedWriter(DataSourceStreamWriter):
    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        staged = self._root / "staged"
        staged.mkdir(parents=True, exist_ok=True)
        name = secrets.token_hex(8)
        with (staged / name).open("w") as file:
            file.writelines(f"{row[0]}\n" for row in iterator)
        return Staged(name)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        done = self._root / "done"
        done.mkdir(parents=True, exist_ok=True)
        path = done / f"{batchId}"
        if path.exists():  # a batch that is committed twice
            return
        parts = [(self._root / "staged" / message.name).read_text() for message in messages if message is not None]
        new = self._root / f"new-{secrets.token_hex(8)}"
        new.write_text("".join(parts))
        os.rename(new, path)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        for message in messages:
            if message is not None:
                (self._root / "staged" / message.name).unlink(missing_ok=True)
