"""What a job needs in every process that runs it: packages, and sinks that can be written."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from snapline.config import Execution, StateBackend
from snapline.contracts.sink import Sink
from snapline.errors import ConfigurationError, RestoreError, SnaplineError
from snapline.operators.sink_operator import SinkOperator
from snapline.operators.source_head import ChainMember
from snapline.protocol.snapshot import Snapshot
from snapline.state.rocksdb.rocksdb_files import load_rocksdict

_log = logging.getLogger(__name__)


def check_packages(execution: Execution) -> None:
    """Raises `ConfigurationError` if a package is missing that the settings ask for."""
    if execution.state_backend is StateBackend.ROCKSDB:
        load_rocksdict()


def check_sinks(operators: Iterable[tuple[str, ChainMember]]) -> None:
    """Raises `ConfigurationError` if a sink, given with its uid, cannot be written from this process."""
    for uid, operator in operators:
        if not isinstance(operator, SinkOperator):
            continue
        try:
            operator.sink.check_access()
        except SnaplineError as error:
            raise ConfigurationError(f"the sink {uid!r} cannot be written: {error}") from error
        except Exception as error:
            raise ConfigurationError(f"the sink {uid!r} cannot be written: {type(error).__name__}: {error}") from error


def check_newer_output(
    sinks: Mapping[str, Sink], start: Snapshot, forks: Iterable[str] = (), *, is_allowed: bool
) -> None:
    """Raises `RestoreError` if a sink, given by its uid, has committed output that is newer than the snapshot.

    A job that starts from the snapshot would write it again. `forks` are lineages that began with the same snapshot:
    all of their output is newer. Blocks: it asks the systems outside.
    """
    for uid, sink in sinks.items():
        newest = sink.committed_until(start.lineage.id, uid) if start.lineage.id else None
        if newest is not None and newest > start.id:
            found = f"output up to checkpoint {newest} of the job that took {start.location}"
        elif (fork := next((fork for fork in forks if sink.committed_until(fork, uid) is not None), None)) is not None:
            found = f"output of a job that was started from {start.location} before ({fork})"
        else:
            continue
        if not is_allowed:
            raise RestoreError(
                f"the sink {uid!r} holds {found}, and that is only checkpoint {start.id}: starting from it would write "
                "the rows after it again. Start from the newest checkpoint or savepoint; or remove the newer output "
                "and set Checkpoints(allow_newer_output=True)"
            )
        _log.warning(
            "the sink %r holds %s: rows after checkpoint %d are written again, as allow_newer_output permits",
            uid,
            found,
            start.id,
        )
