"""Wires, starts and stops the tasks of one region in one attempt, in one operator process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from snapline.graph.execution_plan import PlannedEdge, PlannedVertex
from snapline.graph.shipment import Shipment
from snapline.protocol.barriers.barrier_events import aligned_only_vertices
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.network.channels import OutputChannel
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.partitioners import make_partitioner
from snapline.runtime.network.region_channels import Lost
from snapline.runtime.task.input_gate import GateChannel
from snapline.runtime.task.subtask_storage import SubtaskStorage
from snapline.runtime.task.task import Task
from snapline.runtime.task.task_environment import Reporter, TaskEnvironment, TaskPlan
from snapline.runtime.task.task_outputs import OutputEdge, end_partitions
from snapline.runtime.wire.channel_items import Item
from snapline.runtime.wire.control_messages import Deploy, TaskDeployment
from snapline.storage.local_copies import job_directory, remove_strangers
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_writer import WriteOptions
from snapline.types import ExecutionId, Partitioning

_log = JobLogger(__name__)

CONNECT_TIMEOUT_S = 30.0


class _Finished:
    """Stands in for a subtask that had finished before: ignores everything."""

    def arrive(self, channel_index: int, item: Item) -> None:
        pass

    def connection_lost(self, error: str) -> None:
        pass

    def room_changed(self) -> None:
        pass

    def barrier_left(self, channel: OutputChannel, checkpoint_id: int) -> None:
        pass

    def end_was_read(self, channel: OutputChannel) -> None:
        pass


class Attempt:
    """One attempt of one region in one process. One thread calls `start` and `stop`; another may call `give_up`."""

    def __init__(
        self,
        deploy: Deploy,
        slot: int,
        shipment: Shipment,
        exchange: Exchange,
        objects: ObjectStore,
        environment: TaskEnvironment,
        reporter: Reporter,
        directory: Callable[[], Path],
        lost: Lost,
    ) -> None:
        self.number = deploy.attempt
        self.region = deploy.region
        self.directory_prefix = f"{deploy.attempt}-{deploy.region}-"
        """Begins the names of its tasks' directories."""
        self.tasks: dict[ExecutionId, Task] = {}
        self._deploy = deploy
        self._slot = slot
        self._shipment = shipment
        self._objects = objects
        self._environment = environment
        self._reporter = reporter
        self._directory = directory
        self._wiring = exchange.begin(deploy.attempt, deploy.peers, lost, deploy.region)
        edges = [(edge.source, edge.target, edge.partitioning) for edge in shipment.plan.edges]
        self._aligned_only = aligned_only_vertices(edges)
        self._given_up = threading.Event()

    def start(self) -> None:
        plan, local = self._shipment.plan, self._shipment.checkpoints.local_directory
        if local is not None:
            vertices = {vertex.id: vertex.parallelism for vertex in plan.vertices}
            remove_strangers(job_directory(local, self._shipment.job_id), vertices, self._slot)
        ended: list[list[OutputEdge]] = []
        for vertex in plan.vertices:
            for deployment in self._deploy.tasks:
                if deployment.execution.subtask.vertex != vertex.id:
                    continue
                if deployment.finished:
                    ended.append(self._outputs(vertex, self._slot, _Finished()))
                    self._inputs(vertex, self._slot, _Finished())
                else:
                    self._make_task(vertex, deployment)
        self._wiring.connect(CONNECT_TIMEOUT_S)
        for outputs in ended:
            end_partitions(outputs)
        for task in self.tasks.values():
            if not self._given_up.is_set():
                task.start()

    def _make_task(self, vertex: PlannedVertex, deployment: TaskDeployment) -> None:
        deploy, shipment = self._deploy, self._shipment
        checkpoints = shipment.checkpoints
        execution = deployment.execution
        local = checkpoints.local_directory
        storage = SubtaskStorage(
            self._objects,
            execution,
            deploy.shared,
            WriteOptions.of(checkpoints),
            None if local is None else job_directory(local, shipment.job_id),
        )
        operators = shipment.make_operators(vertex.id)
        own_directory = f"{self.directory_prefix}{len(self.tasks)}"
        plan = TaskPlan(
            job_id=shipment.job_id,
            execution=execution,
            vertex=vertex,
            max_parallelism=deploy.max_parallelism[vertex.id],
            checkpoints=checkpoints,
            settings=shipment.execution,
            takes_last_checkpoint=shipment.takes_last_checkpoint,
            restore=deployment.restore,
            restored_id=deploy.restored_id,
            prepared_until=deploy.prepared_until,
            lineage=deploy.lineage,
            directory=lambda: self._directory() / own_directory,
            in_unison=shipment.plan.in_unison,
        )
        task = Task(plan, operators, storage, self._environment, self._reporter)
        inputs = self._inputs(vertex, execution.subtask.index, task)
        outputs = self._outputs(vertex, execution.subtask.index, task)
        task.connect(inputs, outputs)
        self.tasks[execution] = task

    def _inputs(self, vertex: PlannedVertex, index: int, task: Task | _Finished) -> list[GateChannel]:
        plan, channels = self._shipment.plan, list[GateChannel]()
        for number, edge in enumerate(plan.edges):
            if edge.target != vertex.id:
                continue
            partitioner = make_partitioner(
                edge.partitioning,
                edge.key_columns,
                vertex.parallelism,
                self._deploy.max_parallelism[vertex.id],
                index,
            )
            for upstream in self._upstreams(edge, index):
                position = len(channels)
                port = self._wiring.input(number, edge.schema, upstream, index, upstream, task, position)
                channels.append(GateChannel(position, edge, upstream, index, partitioner, port))
        return channels

    def _outputs(self, vertex: PlannedVertex, index: int, task: Task | _Finished) -> list[OutputEdge]:
        plan, outputs = self._shipment.plan, list[OutputEdge]()
        for number, edge in enumerate(plan.edges):
            if edge.source != vertex.id:
                continue
            target = plan.vertex(edge.target)
            may_be_unaligned = edge.target not in self._aligned_only
            downstreams = (index,) if edge.partitioning is Partitioning.FORWARD else range(target.parallelism)
            channels = [
                self._wiring.output(
                    number, edge.schema, index, downstream, downstream, task, may_be_unaligned=may_be_unaligned
                )
                for downstream in downstreams
            ]
            partitioner = make_partitioner(
                edge.partitioning,
                edge.key_columns,
                target.parallelism,
                self._deploy.max_parallelism[target.id],
                index,
                f"{target.operators[0].name} {target.operators[0].uid!r}",
            )
            outputs.append(OutputEdge(edge, channels, partitioner))
        return outputs

    def _upstreams(self, edge: PlannedEdge, index: int) -> range:
        if edge.partitioning is Partitioning.FORWARD:
            return range(index, index + 1)
        return range(self._shipment.plan.vertex(edge.source).parallelism)

    def metrics(self) -> list[TaskMetrics]:
        return [task.metrics() for task in self.tasks.values() if task.is_alive]

    @property
    def has_finished(self) -> bool:
        """Whether all tasks are done and closed."""
        return all(task.has_finished for task in self.tasks.values())

    def has_task_finished(self, execution: ExecutionId) -> bool:
        task = self.tasks.get(execution)
        return task is not None and task.has_finished

    @property
    def is_given_up(self) -> bool:
        return self._given_up.is_set()

    def give_up(self) -> None:
        """Cancel everything: no task of this attempt waits or starts any more."""
        self._given_up.set()
        for task in tuple(self.tasks.values()):
            task.cancel()
        self._wiring.close()

    def stop(self, timeout_s: float) -> bool:
        """End all tasks. Returns False if some do not end in time."""
        self.give_up()
        time_s = self._environment.threads.time_s
        deadline_s = time_s() + timeout_s
        for task in self.tasks.values():
            if task.is_alive and not task.join(max(deadline_s - time_s(), 0)):
                subtask, attempt = task.execution
                _log.warning(
                    "%s does not stop: user code does not return",
                    task.execution,
                    attempt=attempt,
                    vertex=subtask.vertex,
                    subtask=subtask.index,
                )
                return False
        return True
