"""A sink around another one that kills its process, or its driver, at given points of a checkpoint, each once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa

from snapline.contracts.sink import (
    CommitResult,
    CommitScope,
    Committable,
    GlobalCommitter,
    Permit,
    RetryWith,
    Sink,
    SinkContext,
    SinkWriter,
)

BEFORE_PREPARE = "before prepare"
AFTER_PREPARE = "after prepare"
BEFORE_COMMIT = "after the metadata is durable"
DURING_COMMIT = "in the middle of the commit"
AFTER_COMMIT = "after the commit, before it is recorded"
ZOMBIE = "a zombie commits after recovery"
POINTS = (BEFORE_PREPARE, AFTER_PREPARE, BEFORE_COMMIT, DURING_COMMIT, AFTER_COMMIT, ZOMBIE)
COMMIT_POINTS = (BEFORE_COMMIT, DURING_COMMIT, AFTER_COMMIT, ZOMBIE)

LONGEST_COMMIT_S = 0.03
"""A kill in the middle of a commit comes within this time of its start."""


@dataclass(frozen=True, slots=True)
class KillPlan:
    """The points of one round, in order, and who dies: the operator process that gets there, or the driver.

    `directory` holds a file for each point that is done: whoever creates it carries it out.
    """

    directory: str
    victim: str
    points: tuple[str, ...]
    seed: int

    def is_due(self, point: str, attempt: int) -> bool:
        """Whether the process that comes to this point has to carry it out. True once for each."""
        index = self.points.index(point) if point in self.points else -1
        if index < 0 or self._file(index).exists():
            return False
        if index and not self._is_over(index - 1, attempt):
            return False
        try:
            with self._file(index).open("x") as file:
                json.dump({"attempt": attempt}, file)
        except FileExistsError:
            return False
        return True

    def _is_over(self, index: int, attempt: int) -> bool:
        """Whether the point before is done and the job has restarted since."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return attempt > int(json.loads(self._file(index).read_text())["attempt"])
        return False

    def done(self) -> list[str]:
        return [point for index, point in enumerate(self.points) if self._file(index).exists()]

    def _file(self, index: int) -> Path:
        return Path(self.directory) / f"point-{index}"

    def strike(self) -> None:
        """Kill the victim. Does not return where that is this process."""
        pid = os.getpid() if self.victim == "operator" else int((Path(self.directory) / "driver.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        time.sleep(60)  # if it was the driver's turn: this process ends when it notices


class DeadlySink(Sink):
    """Behaves as `inner`, until a point of the plan is due."""

    def __init__(self, inner: Sink, plan: KillPlan) -> None:
        self.inner = inner
        self.plan = plan
        self.commit_scope = inner.commit_scope
        self.two_phase = inner.two_phase

    def check(self, schema: pa.Schema) -> None:
        self.inner.check(schema)

    def check_access(self) -> None:
        self.inner.check_access()

    def starting(self, job_id: str) -> None:
        self.inner.starting(job_id)

    def committed_until(self, lineage: str, uid: str) -> int | None:
        return self.inner.committed_until(lineage, uid)

    def writer(self, context: SinkContext) -> SinkWriter:
        return _Writer(self, context)

    def global_committer(self, context: SinkContext) -> GlobalCommitter:
        return _Committer(self, context)


class _Commits:
    """The points of a commit, in a writer or a global committer."""

    def __init__(self, sink: DeadlySink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context

    def commit(self, commit: Any, committable: Committable, permit: Permit) -> CommitResult | RetryWith:
        plan, attempt = self._sink.plan, self._context.attempt
        if plan.is_due(ZOMBIE, attempt):
            # What this process knows outlives it: the zombie commits it once the job has recovered.
            zombie = Path(plan.directory) / "zombie"
            zombie.with_suffix(".new").write_bytes(
                cloudpickle.dumps((self._sink.inner, self._context, committable, permit))
            )
            zombie.with_suffix(".new").rename(zombie)
            plan.strike()
        if plan.is_due(BEFORE_COMMIT, attempt):
            plan.strike()
        if plan.is_due(DURING_COMMIT, attempt):
            delay_s = random.Random(f"{plan.seed}/{committable.name}").uniform(0, LONGEST_COMMIT_S)  # noqa: S311
            threading.Timer(delay_s, plan.strike).start()
            result: CommitResult | RetryWith = commit(committable, permit)
            time.sleep(LONGEST_COMMIT_S)
            return result
        result = commit(committable, permit)
        if plan.is_due(AFTER_COMMIT, attempt):
            plan.strike()
        return result


class _Writer(SinkWriter):
    def __init__(self, sink: DeadlySink, context: SinkContext) -> None:
        self._inner = sink.inner.writer(context)
        self._plan = sink.plan
        self._context = context
        self._commits = _Commits(sink, context)

    def write(self, batch: pa.RecordBatch) -> None:
        self._inner.write(batch)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        if self._plan.is_due(BEFORE_PREPARE, self._context.attempt):
            self._plan.strike()
        payloads = self._inner.prepare(checkpoint_id)
        if payloads and self._plan.is_due(AFTER_PREPARE, self._context.attempt):
            self._plan.strike()
        return payloads

    def commit(self, committable: Committable, permit: Permit) -> CommitResult | RetryWith:
        return self._commits.commit(self._inner.commit, committable, permit)

    def abort_newer(self, checkpoint_id: int) -> None:
        self._inner.abort_newer(checkpoint_id)

    def state(self, checkpoint_id: int) -> Sequence[Any]:
        return self._inner.state(checkpoint_id)

    def recover(self, states: Sequence[Any]) -> None:
        self._inner.recover(states)

    def close(self) -> None:
        self._inner.close()


class _Committer(GlobalCommitter):
    def __init__(self, sink: DeadlySink, context: SinkContext) -> None:
        self._inner = sink.inner.global_committer(context)
        self._commits = _Commits(sink, context)

    def commit(self, committable: Committable, permit: Permit) -> CommitResult | RetryWith:
        return self._commits.commit(self._inner.commit, committable, permit)

    def abort_newer(self, checkpoint_id: int) -> None:
        self._inner.abort_newer(checkpoint_id)

    def close(self) -> None:
        self._inner.close()


def wake_zombie(path: Path) -> str:
    """Commit what a dead process was about to commit, as it would have. Returns what came of it."""
    sink, context, committable, permit = cloudpickle.loads(path.read_bytes())
    made = sink.writer(context) if sink.commit_scope is CommitScope.SUBTASK else sink.global_committer(context)
    try:
        return str(made.commit(committable, permit))
    except Exception as error:
        return f"refused: {type(error).__name__}: {error}"
    finally:
        made.close()
