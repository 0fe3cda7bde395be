"""Messages of writers, kept in a directory until their commit, so that a driver knows what it has to abort."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from snapline.contracts.sink import SinkContext

_ENTRY = re.compile(r"(?P<attempt>\d+)-(?P<checkpoint>\d+)-(?P<subtask>\d+)-[0-9a-f]+")


class MessageJournal:
    """The messages of one sink in one lineage, a file each.

    They are for aborts only, which need not come: what is to be committed is in the checkpoint.
    """

    def __init__(self, directory: Path, context: SinkContext) -> None:
        self._attempt = context.attempt
        self._subtask = context.subtask
        self._directory = directory / context.job_id / context.uid / context.lineage.replace("/", "_")

    def keep(self, checkpoint_id: int, message: bytes) -> str:
        """Returns the name of the entry."""
        name = f"{self._attempt}-{checkpoint_id}-{self._subtask}-{secrets.token_hex(8)}"
        self._directory.mkdir(parents=True, exist_ok=True)
        # Under another name first: what has the final one is complete.
        unfinished = self._directory / f".{name}"
        unfinished.write_bytes(message)
        unfinished.rename(self._directory / name)
        return name

    def drop(self, name: str) -> None:
        if _ENTRY.fullmatch(name):
            (self._directory / name).unlink(missing_ok=True)

    def newer(self, checkpoint_id: int) -> Iterator[tuple[int, list[tuple[str, bytes]]]]:
        """What older attempts kept for checkpoints after this one: checkpoints, and the entries of each by subtask."""
        found: dict[int, list[tuple[int, str]]] = {}
        if self._directory.is_dir():
            for path in self._directory.iterdir():
                match = _ENTRY.fullmatch(path.name)
                if match and int(match["attempt"]) < self._attempt and int(match["checkpoint"]) > checkpoint_id:
                    found.setdefault(int(match["checkpoint"]), []).append((int(match["subtask"]), path.name))
        for checkpoint, names in sorted(found.items()):
            yield checkpoint, [(name, (self._directory / name).read_bytes()) for _, name in sorted(names)]
