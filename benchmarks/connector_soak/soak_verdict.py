"""What the three sinks hold at the end, and whether group offsets were ever ahead."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.connector_soak.soak_pipeline import GROUP, PARTITIONS

Row: TypeAlias = tuple[str, int, int]


def in_kafka(bootstrap: str) -> list[Row]:
    """All rows that a read_committed reader sees."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "verdict", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition("counts", partition, 0) for partition in range(PARTITIONS)])
    rows: list[Row] = []
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(10_000, timeout=1.0):
            if message.error() is not None:
                ended.add(message.partition() or 0)
                continue
            row = json.loads(message.value() or b"")
            rows.append((row["user"], row["n"], row["total"]))
    consumer.close()
    return rows


def in_postgres(dsn: str) -> list[Row]:
    import psycopg

    with psycopg.connect(dsn) as connection:
        return list(connection.execute('select "user", n, total from counts'))


def in_delta(path: str) -> list[Row]:
    from deltalake import DeltaTable

    table = DeltaTable(path).to_pyarrow_table()
    return list(zip(*(table[name].to_pylist() for name in ("user", "n", "total")), strict=True))


def problems(found: dict[str, list[Row]], expected: dict[str, tuple[int, int]]) -> list[str]:
    """What is wrong with the rows of the sinks; `expected` has the count and the sum of each user."""
    said: list[str] = []
    first, *others = found
    for name in others:
        if Counter(found[name]) != Counter(found[first]):
            said.append(f"{name} has {len(found[name])} rows that differ from the {len(found[first])} of {first}")
    for name, rows in found.items():
        twice = [pair for pair, count in Counter((user, n) for user, n, _ in rows).items() if count > 1]
        if twice:
            said.append(f"{name} has {len(twice)} counts twice, such as {twice[:3]}")
        newest: dict[str, tuple[int, int]] = {}
        for user, n, total in rows:
            newest[user] = max(newest.get(user, (0, 0)), (n, total))
        wrong = [user for user in expected if newest.get(user) != expected[user]]
        if wrong or newest.keys() - expected.keys():
            shown = {user: (newest.get(user), expected[user]) for user in wrong[:3]}
            said.append(f"{name}: {len(wrong)} users have a wrong last count, such as {shown}")
    return said


class GroupCheck:
    """Compares the offsets of the group with the positions of completed checkpoints."""

    def __init__(self, bootstrap: str, root: Path) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
        self._root = root
        self.samples = 0
        self.problems: list[str] = []

    def look(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            found = self._consumer.committed([TopicPartition("clicks", p) for p in range(PARTITIONS)], timeout=10)
        except KafkaException:
            return
        # The checkpoint is looked up afterwards: it may be newer than the offsets, never older.
        completed = self._completed()
        notes = self._root / "positions"
        lines = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
        for entry in found:
            if entry.offset < 0:
                continue
            at: list[Any] = [at for id, partition, at in lines if partition == entry.partition and id <= completed]
            self.samples += 1
            if entry.offset > max((number for number in at if number is not None), default=0):
                where = f"{entry.offset} of partition {entry.partition}"
                self.problems.append(f"the group is at {where}, and checkpoint {completed} at {at[-1:]}")

    def _completed(self) -> int:
        names = [path.parent.name for path in self._root.glob("checkpoints/*/chk-*/_metadata")]
        return max((int(match[1]) for name in names if (match := re.search(r"(\d+)$", name)) is not None), default=0)

    def close(self) -> None:
        self._consumer.close()
