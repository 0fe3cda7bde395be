"""Explains a job before it runs: its plan, its settings, and what it would start from."""

from __future__ import annotations

import secrets

from snapline.api.graph_nodes import Node
from snapline.api.job import Job
from snapline.api.job_plan import JobPlan
from snapline.config import (
    CheckpointMode,
    Checkpoints,
    Execution,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    Monitoring,
    NoRestart,
    RestartStrategy,
    StateBackend,
)
from snapline.contracts.dead_letters import OnError
from snapline.contracts.source import Watermarks
from snapline.errors import StorageError
from snapline.graph.job_spec import takes_last_checkpoint
from snapline.graph.plan_view import plan_view
from snapline.graph.planner import hooks_by_name, plan
from snapline.graph.requirements import check_packages
from snapline.graph.setting_conflicts import refuse_conflicts, without_effect
from snapline.graph.shipment import pack
from snapline.operators.sink_operator import SinkOperator
from snapline.operators.source_head import SourceHead
from snapline.storage.storage_factory import open_archive
from snapline.text import size_text


def explain(job: Job) -> JobPlan:
    """How the job would run if it were started now. Raises what a start would say of the job itself.

    Reads the storage of its checkpoints, but asks no source or sink, and changes nothing.
    """
    refuse_conflicts(job, job.nodes)
    planned = plan(job)
    hooks = hooks_by_name(job.hooks)
    check_packages(job.execution)
    job_id, start = _start(job)
    last = takes_last_checkpoint(job.checkpoints, job.restart)
    shipment = pack(job_id, planned.plan, job.checkpoints, job.execution, last, planned.operators)
    slots = planned.plan.slots
    return JobPlan(
        job.name,
        plan_view(planned.plan),
        slots,
        (
            ("starts", start),
            ("slots", f"{slots}: as many Spark tasks must run at the same time; slot i runs subtask i of each vertex"),
            ("checkpoints", checkpoints_text(job.checkpoints)),
            ("restart", restart_text(job.restart)),
            ("state", state_text(job.execution)),
            ("hooks", ", ".join(hooks)),
            ("page", page_text(job.monitoring)),
            ("code", f"{size_text(len(shipment))} go to each slot"),
        ),
        {uid: remark for node, uid in planned.uids.items() if (remark := _remark(node))},
        tuple(without_effect(job, job.nodes)),
    )


# The start.


def _start(job: Job) -> tuple[str, str]:
    """The job's id, and what it would start from."""
    checkpoints = job.checkpoints
    given = checkpoints.restore_from
    first = "from the beginning" if given is None else f"from {given} ({checkpoints.claim_mode.value})"
    if checkpoints.storage is None:
        if job.id is None:
            return f"job-{secrets.token_hex(4)}", f"{first}, under a new id"
        return job.id, f"{first}, under the id {job.id!r}"
    try:
        job_id = job.id_for_start()
        archive = open_archive(checkpoints, job_id, "reader")
        try:
            journal = archive.read_journal()
        finally:
            archive.disconnect()
    except StorageError as error:
        return job.id or "unknown", f"that is not known, as the storage cannot be read now: {error}"
    if journal.is_closed and journal.ended is not None:
        return job_id, (
            f"not at all: the job {job_id!r} has ended ({journal.ended.value}); to run it again, give it another id"
        )
    if journal.latest is not None:
        return job_id, f"from {journal.latest.location}, as attempt {journal.attempt + 1} of the job {job_id!r}"
    return job_id, f"{first}, under the id {job_id!r}"


# Settings.


def checkpoints_text(checkpoints: Checkpoints) -> str:
    """How checkpoints are taken, in a line."""
    if checkpoints.interval_ms is None:
        parts = ["only on request"]
    else:
        parts = [f"every {_time(checkpoints.interval_ms)}"]
        if checkpoints.interval_during_backlog_ms is not None:
            backlog_ms = checkpoints.interval_during_backlog_ms
            parts.append(f"every {_time(backlog_ms)} during backlog" if backlog_ms else "none during backlog")
        if checkpoints.min_pause_ms:
            parts.append(f"{_time(checkpoints.min_pause_ms)} apart at least")
    parts.append("exactly once" if checkpoints.mode is CheckpointMode.EXACTLY_ONCE else "at least once")
    if checkpoints.unaligned:
        after_ms = checkpoints.aligned_timeout_ms
        parts.append(f"unaligned after {_time(after_ms)}" if after_ms else "unaligned")
    if checkpoints.incremental:
        parts.append("incremental")
    parts.append(f"given up after {_time(checkpoints.timeout_ms)}")
    if checkpoints.storage is None:
        parts.append("kept in the driver and lost with it")
    else:
        newest = "the newest" if checkpoints.retained == 1 else f"the newest {checkpoints.retained}"
        parts.append(f"{newest} kept in {checkpoints.storage}")
    return ", ".join(parts)


def restart_text(restart: RestartStrategy) -> str:
    """What happens after a failure, in a line."""
    match restart:
        case NoRestart():
            return "none: the first failure of a task fails the job"
        case FixedDelay():
            return f"{_time(restart.delay_ms)} after a failure, {restart.attempts} times"
        case FailureRate():
            return (
                f"{_time(restart.delay_ms)} after a failure, unless there are more than "
                f"{restart.max_failures_per_interval} within {_time(restart.interval_ms)}"
            )
        case ExponentialDelay():
            most = restart.attempts_before_reset
            return (
                f"{_time(restart.initial_backoff_ms)} after a failure, then {restart.multiplier:g} times as long each "
                f"time, up to {_time(restart.max_backoff_ms)}{'' if most is None else f'; {most} times'}"
            )


def state_text(execution: Execution) -> str:
    if execution.state_backend is StateBackend.MEMORY:
        return "in the memory of each slot"
    limit_bytes = execution.state_memory_bytes
    limit = "" if limit_bytes is None else f", with at most {limit_bytes >> 20:,} MB of memory in each slot"
    return f"in RocksDB on each machine, in {execution.state_directory or 'its temporary directory'}{limit}"


def page_text(monitoring: Monitoring | None) -> str:
    """Where the page will be; on Spark there is one unless the job says otherwise."""
    if monitoring is None:
        return f"{page_text(Monitoring())}, if it runs on Spark"
    if not monitoring.enabled:
        return "none"
    first = "the first free port of" if monitoring.port and "-" in monitoring.port else "port"
    return f"on {monitoring.host}, {first} {monitoring.port or 'chosen by the system'}"


# Operators.


def _remark(node: Node) -> str:
    """What the plan does not say of an operator."""
    if isinstance(node.operator, SinkOperator):
        return "commits with checkpoints" if node.operator.sink.two_phase else "writes at once"
    if node.source is None:
        return ""
    parts = ["ends by itself" if node.source.is_bounded else "never ends"]
    if isinstance(node.operator, SourceHead) and node.operator.watermarks is not None:
        parts.append(_event_time(node.operator.watermarks))
    on_error = OnError(node.source.on_error)
    if on_error is not OnError.FAIL:
        parts.append("rows that cannot be read are " + ("dropped" if on_error is OnError.DROP else "dead letters"))
    return "; ".join(parts)


def _event_time(watermarks: Watermarks) -> str:
    delay = f", rows up to {_time(watermarks.delay_ms)} late" if watermarks.delay_ms else ""
    return f"event time from {watermarks.column}{delay}"


def _time(duration_ms: int) -> str:
    """A duration as people would set it: exact, with the largest unit that fits."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if duration_ms >= unit_ms and duration_ms % (unit_ms // 10) == 0:
            return f"{duration_ms / unit_ms:g} {unit}"
    return f"{duration_ms} ms"
