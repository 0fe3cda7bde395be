"""A job as it is sent to its processes: pickled by the driver, carried by Spark, never by our own sockets."""

from __future__ import annotations

import importlib.metadata
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cloudpickle

from snapline.config import Checkpoints, Execution
from snapline.errors import ConfigurationError, UserCodeError
from snapline.graph.execution_plan import ExecutionPlan
from snapline.operators.source_head import ChainMember
from snapline.storage.known_roots import known_directories

HOW_TO_SHIP = (
    "install it where the executors run, or ship it: spark.sparkContext.addPyFile(...), or --py-files and --archives "
    "of spark-submit"
)
"""What to do about a module that the executors do not have."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """What a process of the job unpacks. `operators` are grouped by vertex, each pickled separately.

    `takes_last_checkpoint` is as in `graph/job_spec.py`, `known_directories` as in `storage/known_roots.py`.
    """

    job_id: str
    plan: ExecutionPlan
    checkpoints: Checkpoints
    execution: Execution
    takes_last_checkpoint: bool
    operators: Mapping[str, tuple[bytes, ...]]
    known_directories: tuple[str, ...] = ()
    job_name: str = ""

    def make_operators(self, vertex_id: str) -> list[ChainMember]:
        """New copies of a vertex's operators; `UserCodeError` if something they need is not there."""
        made: list[ChainMember] = []
        planned = self.plan.vertex(vertex_id).operators
        for operator, data in zip(planned, self.operators[vertex_id], strict=True):
            try:
                made.append(pickle.loads(data))  # noqa: S301  # the driver's own, brought by Spark like any closure
            except ModuleNotFoundError as error:
                raise UserCodeError(
                    f"operator {operator.uid!r} needs the module {error.name!r}, which the executors do not have; "
                    f"{HOW_TO_SHIP}"
                ) from error
            except Exception as error:
                raise UserCodeError(
                    f"operator {operator.uid!r} cannot be unpacked on the executors: {type(error).__name__}: {error}; "
                    "do driver and executors have the same versions of Python and of all packages?"
                ) from error
        return made


def pack(
    job_id: str,
    plan: ExecutionPlan,
    checkpoints: Checkpoints,
    execution: Execution,
    takes_last_checkpoint: bool,
    operators: Mapping[str, Sequence[ChainMember]],
    job_name: str = "",
) -> bytes:
    """The job as bytes; `ConfigurationError` names the operator that cannot be pickled, and why."""
    packed: dict[str, tuple[bytes, ...]] = {}
    for vertex in plan.vertices:
        parts: list[bytes] = []
        for planned, operator in zip(vertex.operators, operators[vertex.id], strict=True):
            try:
                parts.append(cloudpickle.dumps(operator))
            except Exception as error:
                raise ConfigurationError(
                    f"operator {planned.uid!r} ({planned.name}) cannot be pickled and sent to the executors: "
                    f"{type(error).__name__}: {error}. Functions may not hold connections, locks, open files or the "
                    "SparkSession; create those in the operator's `open`, or on first use"
                ) from error
        packed[vertex.id] = tuple(parts)
    directories = tuple(known_directories(checkpoints))
    shipment = Shipment(job_id, plan, checkpoints, execution, takes_last_checkpoint, packed, directories, job_name)
    # The version is packed separately: the shipment of another version may not even unpickle.
    return pickle.dumps((_version(), cloudpickle.dumps(shipment)))


def unpack(data: bytes) -> Shipment:
    """Reverses `pack`; `data` must come from the driver by Spark. `UserCodeError` if another version packed it."""
    version, packed = pickle.loads(data)  # noqa: S301  # as above
    if version != _version():
        raise UserCodeError(
            f"the driver runs Snapline {version}, the executors run {_version()}; install the same version on both"
        )
    shipment = pickle.loads(packed)  # noqa: S301  # as above
    assert isinstance(shipment, Shipment)
    return shipment


def _version() -> str:
    return importlib.metadata.version("snapline")
