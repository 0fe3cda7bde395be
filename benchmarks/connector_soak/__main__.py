"""`python -m benchmarks.connector_soak --seconds 180 --json`: real servers, real Spark, random kills, three sinks."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.connector_soak.soak_pipeline import PARTITIONS
from benchmarks.connector_soak.soak_verdict import GroupCheck, in_delta, in_kafka, in_postgres, problems

from snapline.devtools.kit.processes import descendants, end, operator_processes, send
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.devtools.servers.postgres_server import PostgresServer

USERS = 200
ROWS_PER_SECOND = 2000
CALM_S = (1.0, 5.0)
"""Pause between a checkpoint after a kill and the next kill."""

RECOVERY_S = 120.0
KILLS = ("operator", "operator", "worker", "driver")
_POLL_S = 0.1
_LOG_CHARACTERS = 4000


class SoakError(Exception):
    """The soak could not be carried out."""


class Clicks:
    """Produces rows at a steady rate until `stop`, and knows what must come out."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._random = random.Random(seed)  # noqa: S311
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.expected: dict[str, tuple[int, int]] = {}
        self.rows = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        if self._producer.flush(60):
            raise SoakError("not all rows could be produced")

    def _run(self) -> None:
        began_s = time.monotonic()
        while not self._stop.wait(0.02):
            due = int((time.monotonic() - began_s) * ROWS_PER_SECOND)
            for _ in range(due - self.rows):
                user, value = f"user-{self._random.randrange(USERS)}", self._random.randrange(100)
                self._producer.produce("clicks", json.dumps({"user": user, "value": value}), user)
                n, total = self.expected.get(user, (0, 0))
                self.expected[user] = (n + 1, total + value)
            self.rows = due
            self._producer.poll(0)


class Soak:
    def __init__(self, root: Path, seconds: float, seed: int, say: Callable[[str], None]) -> None:
        self._root = root
        self._seconds = seconds
        self._random = random.Random(seed)  # noqa: S311
        self._seed = seed
        self._say = say
        self._driver: subprocess.Popen[bytes] | None = None
        self.kills: dict[str, int] = dict.fromkeys(KILLS, 0)

    def run(self, kafka: KafkaServer, postgres: PostgresServer) -> dict[str, Any]:
        import psycopg

        dsn = postgres.create_database("soak")
        with psycopg.connect(dsn) as connection:
            connection.execute('create table counts ("user" text, n bigint, total bigint)')
        for topic in ("clicks", "counts"):
            kafka.create_topic(topic, partitions=PARTITIONS)
        order = {"root": str(self._root), "bootstrap": kafka.bootstrap, "dsn": dsn, "delta": str(self._root / "delta")}
        (self._root / "order.json").write_text(json.dumps(order))
        clicks, group = Clicks(kafka.bootstrap, self._seed), GroupCheck(kafka.bootstrap, self._root)
        began_s = time.monotonic()
        try:
            self._start()
            self._await_checkpoints(2)
            self._say("the job runs")
            clicks.start()
            began_s = time.monotonic()
            while time.monotonic() - began_s < self._seconds:
                self._calm(group)
                self._kill()
                self._await_checkpoints(2)
            clicks.stop()
            self._await_rows(kafka, clicks, group)
            (self._root / "stop").touch()
            if self._running.wait(RECOVERY_S) != 0:
                raise SoakError(f"the driver did not stop: {self._log()}")
        finally:
            self._end()
        found = {"kafka": in_kafka(kafka.bootstrap), "postgres": in_postgres(dsn), "delta": in_delta(order["delta"])}
        said = problems(found, clicks.expected) + group.problems
        group.close()
        return {
            "verdict": "wrong" if said else "exact",
            "problems": said,
            "kills": self.kills,
            "input_rows": clicks.rows,
            "output_rows": {name: len(rows) for name, rows in found.items()},
            "group_samples": group.samples,
            "seconds": round(time.monotonic() - began_s, 1),
            "seed": self._seed,
        }

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._driver is not None
        return self._driver

    def _start(self) -> None:
        (self._root / "status").unlink(missing_ok=True)
        with (self._root / "driver.log").open("ab") as log:
            command = [sys.executable, "-m", "benchmarks.connector_soak.soak_pipeline", str(self._root)]
            self._driver = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _end(self) -> None:
        below = descendants(self._running.pid)
        self._running.kill()
        self._running.wait()
        end(below, 5.0)

    def _calm(self, group: GroupCheck) -> None:
        until_s = time.monotonic() + self._random.uniform(*CALM_S)
        while time.monotonic() < until_s:
            group.look()
            time.sleep(_POLL_S)

    def _kill(self) -> None:
        what = self._random.choice(KILLS)
        operators = operator_processes(self._running.pid)
        if what == "driver" or not operators:
            self._end()
            self._start()
            what = "driver"
        else:
            victim = self._random.choice(operators)
            send(victim.pid if what == "operator" else victim.parent)
        self.kills[what] += 1
        self._say(f"{what} killed")

    def _await_checkpoints(self, more: int) -> None:
        deadline_s, first = time.monotonic() + RECOVERY_S, None
        while True:
            if self._running.poll() is not None:
                raise SoakError(f"the driver has ended: {self._log()}")
            status = self._status()
            if status is not None:
                key = status["pid"], status["attempt"], status["completed"]
                first = key if first is None or key[:2] != first[:2] else first
                if key[2] >= first[2] + more:
                    return
            if time.monotonic() > deadline_s:
                raise SoakError(f"no {more} checkpoints within {RECOVERY_S:g} s: {self._log()}")
            time.sleep(_POLL_S)

    def _await_rows(self, kafka: KafkaServer, clicks: Clicks, group: GroupCheck) -> None:
        """Until the group has everything."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "soak"})
        partitions = [TopicPartition("clicks", partition) for partition in range(PARTITIONS)]
        deadline_s = time.monotonic() + RECOVERY_S
        while sum(max(entry.offset, 0) for entry in consumer.committed(partitions, timeout=20)) < clicks.rows:
            group.look()
            if time.monotonic() > deadline_s or self._running.poll() is not None:
                raise SoakError(f"not all rows are read: {self._log()}")
            time.sleep(_POLL_S)
        consumer.close()

    def _status(self) -> dict[str, Any] | None:
        path = self._root / "status"
        found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
        return found

    def _log(self) -> str:
        return (self._root / "driver.log").read_text(errors="replace")[-_LOG_CHARACTERS:]


def run(seconds: float, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the soak for so long. `problems` of the result is empty if all went well."""
    with tempfile.TemporaryDirectory(prefix="connector-soak-") as folder:
        root = Path(folder)
        with KafkaServer(root / "kafka") as kafka, PostgresServer(root / "postgres") as postgres:
            return Soak(root, seconds, seed, say).run(kafka, postgres)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connector_soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="how long to kill (180)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args()
    began_s = time.monotonic()
    result = run(
        options.seconds, options.seed, lambda text: print(f"{time.monotonic() - began_s:7.1f} {text}", file=sys.stderr)
    )
    print(json.dumps(result, indent=2) if options.json else f"{result['verdict']}: {result}")
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
