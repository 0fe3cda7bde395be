"""Why an operator process cannot run the job, in one line with what to do."""

from __future__ import annotations

from snapline.errors import SnaplineError
from snapline.graph.shipment import HOW_TO_SHIP
from snapline.runtime.wire.socket_errors import listen_advice


def start_problem(error: Exception) -> str:
    """The job's code does not work here, or something it needs is missing."""
    if isinstance(error, SnaplineError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return f"the executors lack the module {error.name!r}; {HOW_TO_SHIP}"
    return (
        f"the job cannot be unpacked on the executors: {type(error).__name__}: {error}; do driver and executors have "
        "the same versions of Python, Snapline and all packages?"
    )


def listening_failed(host: str, error: OSError) -> str:
    """The data port does not open."""
    otherwise = "set Execution(host=...) to an address of each machine, or leave it out"
    return f"slots cannot listen at {host}: {error}; {listen_advice(error, otherwise)}"
