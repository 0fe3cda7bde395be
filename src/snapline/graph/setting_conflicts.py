"""Settings that contradict the operators of a job: those that would break its guarantees, and those without effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from snapline.api.graph_nodes import Node
from snapline.api.job import Job
from snapline.config import StateBackend
from snapline.errors import ConfigurationError
from snapline.graph.job_spec import may_go_back
from snapline.operators.sink_operator import SinkOperator

_log = logging.getLogger(__name__)


def check_settings(job: Job, nodes: Sequence[Node]) -> None:
    """Raise `ConfigurationError` if output could be doubled or lost, and log settings that have no effect."""
    refuse_conflicts(job, nodes)
    for text in without_effect(job, nodes):
        _log.warning("%s", text)


def refuse_conflicts(job: Job, nodes: Sequence[Node]) -> None:
    """Raise `ConfigurationError` if output could be doubled or lost."""
    checkpoints, committing = job.checkpoints, _committing(nodes)
    if committing and not checkpoints.after_tasks_finish and may_go_back(checkpoints, job.restart):
        raise ConfigurationError(
            f"after_tasks_finish=False: once a task has ended there are no more checkpoints, so the sink "
            f"{committing[0]!r} could not commit the rest exactly once; leave out after_tasks_finish, or use a sink "
            "that writes at once (Foreach, Print)"
        )


def without_effect(job: Job, nodes: Sequence[Node]) -> Iterator[str]:
    """What to say of settings that do not have the effect they seem to have."""
    checkpoints, committing = job.checkpoints, _committing(nodes)
    endless = [node.uid for node in nodes if node.source is not None and not node.source.is_bounded]
    if committing and endless and not checkpoints.is_periodic and not job.asks_for_checkpoints:
        yield (
            f"the sink {committing[0]!r} commits only with checkpoints, but there is no interval and the source "
            f"{endless[0]!r} never ends: its output stays invisible until you call checkpoint() or stop(); set "
            "Checkpoints(interval=...)"
        )
    if checkpoints.incremental and job.execution.state_backend is StateBackend.MEMORY:
        yield (
            "incremental=True has no effect: the memory backend writes all of its state with every checkpoint; set "
            "Execution(state_backend='rocksdb')"
        )


def _committing(nodes: Sequence[Node]) -> list[str | None]:
    return [node.uid for node in nodes if isinstance(node.operator, SinkOperator) and node.operator.sink.two_phase]
