"""What a job needs in every process that runs it: packages, and sinks that can be written."""

from __future__ import annotations

from collections.abc import Iterable

from snapline.config import Execution, StateBackend
from snapline.errors import ConfigurationError, SnaplineError
from snapline.operators.sink_operator import SinkOperator
from snapline.operators.source_head import ChainMember
from snapline.state.rocksdb.rocksdb_files import load_rocksdict


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
