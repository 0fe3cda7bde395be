"""Provides simulated slots: production supervisors and operator processes, each in its own simulated process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from snapline.devtools.simulator.checkers import Checker
from snapline.devtools.simulator.control_network import Connection, Link, Network
from snapline.devtools.simulator.data_network import DataNetwork
from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.kernel_scheduler import KernelThreads
from snapline.devtools.simulator.scenario import Scenario
from snapline.devtools.simulator.sim_job import SimShipment
from snapline.devtools.simulator.sim_state import make_sim_states
from snapline.devtools.simulator.sim_storage import SimObjects
from snapline.errors import PeerError
from snapline.protocol.error_identity import ErrorIdentity
from snapline.runtime.master.slots import Slots
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.output_queue import ChannelLimits
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.process_directory import ProcessDirectory
from snapline.runtime.slot.process_launcher import Ended
from snapline.runtime.slot.slot_provider import SilentSlots, SlotOrder, no_slots
from snapline.runtime.slot.supervisor import Supervisor
from snapline.runtime.slot.task_host import TaskHost
from snapline.runtime.task.task import Task
from snapline.runtime.task.task_environment import TaskEnvironment
from snapline.runtime.wire.credentials import Credentials
from snapline.types import ExecutionId, TaskStatus

_POLL_MS = 100


class World(Protocol):
    """What slots use of the simulated world."""

    kernel: Kernel
    scenario: Scenario
    network: Network
    data_network: DataNetwork
    objects: SimObjects
    checker: Checker


class SimSlot:
    """One slot: the processes of its supervisor and its newest operator process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.child: SimChild | None = None
        self.is_over = False


class SlotFarm:
    """`SlotProvider` of one simulated driver."""

    driver_host = bind_host = "driver"

    def __init__(self, world: World, driver: Process, shipment: SimShipment, slots: Callable[[], Slots]) -> None:
        self.slots: list[SimSlot] = []
        self._world = world
        self._kernel = world.kernel
        self._driver = driver
        self._shipment = shipment
        self._master_slots = slots
        self._count = 0
        self._is_over = False

    def running_tasks(self) -> list[Task]:
        """The running tasks of all live operator processes."""
        return [task for host in self.hosts() for task in host.running_tasks()]

    def hosts(self) -> list[SimHost]:
        return [slot.child.host for slot in self.slots if slot.child is not None and slot.child.process.alive]

    # The provider.

    def check(self, slots: int) -> None:
        """There is always room."""

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        self._kernel.sleep(self._kernel.between(0, 60))
        if self._is_over:
            return
        self.slots = []
        for index in range(order.slots):
            self._count += 1
            slot = SimSlot(Process(f"slot-{self._count}-of-{self._driver.name}"))
            self.slots.append(slot)
            supervisor = Supervisor(
                order,
                index,
                slot.process.name,
                self._count,
                start_child=lambda bootstrap, ended, slot=slot: self._start_child(slot, bootstrap, ended),  # type: ignore[misc]
                threads=KernelThreads(self._kernel, slot.process, _no_time),
            )
            slot.process.on_death.append(lambda slot=slot: self._supervisor_died(slot))  # type: ignore[misc]
            self._kernel.spawn(
                slot.process,
                f"supervisor-{index}",
                lambda slot=slot, supervisor=supervisor: self._supervise(slot, supervisor, order, failed),  # type: ignore[misc]
            )

    def _supervise(
        self, slot: SimSlot, supervisor: Supervisor, order: SlotOrder, failed: Callable[[str, bool], None]
    ) -> None:
        problem = "a slot has ended too early"
        try:
            supervisor.serve(self._connect(slot.process, order.credentials))
        except PeerError as error:
            problem = str(error)
        slot.is_over = True
        slot.process.die()
        if slot in self.slots and not self._is_over:
            failed(problem, False)

    def _connect(self, process: Process, credentials: Credentials) -> Link:
        slots = self._master_slots()
        return Connection(self._world.network, process, self._driver, slots, credentials).link

    def _supervisor_died(self, slot: SimSlot) -> None:
        if slot.child is not None:
            slot.child.process.die()

    def release(self, timeout_s: float, silent: SilentSlots = no_slots) -> None:
        del silent  # a process here can always be killed
        slots, self.slots = self.slots, []
        deadline_ms = self._kernel.now_ms + round(timeout_s * 1000)
        while any(not slot.is_over and slot.process.alive for slot in slots) and self._kernel.now_ms < deadline_ms:
            self._kernel.sleep(_POLL_MS)
        for slot in slots:
            slot.process.die()

    def why_gone(self) -> str | None:
        return None

    def close(self) -> None:
        self._is_over = True
        for slot in self.slots:
            slot.process.die()

    # Operator processes.

    def _start_child(self, slot: SimSlot, bootstrap: Bootstrap, ended: Ended) -> SimChild:
        name = f"{slot.process.name}.{bootstrap.incarnation}"
        slot.child = SimChild(self._world, Process(name), bootstrap, self._shipment, ended, self._connect)
        return slot.child


class SimChild:
    """A simulated operator process; `Child` of its supervisor."""

    def __init__(
        self,
        world: World,
        process: Process,
        bootstrap: Bootstrap,
        shipment: SimShipment,
        ended: Ended,
        connect: Callable[[Process, Credentials], Link],
    ) -> None:
        kernel = world.kernel
        settings = shipment.execution
        threads = KernelThreads(kernel, process, lambda name: _turn_ms(world, name))
        limits = ChannelLimits(settings.batch_size_bytes, settings.flush_timeout_ms, settings.channel_memory_bytes)
        environment = TaskEnvironment(
            threads,
            threads.executor(4, "state"),
            threads.executor(2, "in-flight"),
            threads.executor(8, "background"),
            make_sim_states,
        )
        self.process = process
        self.host = SimHost(
            bootstrap,
            shipment,
            cast(Exchange, world.data_network.open(process, bootstrap.slot, limits)),
            world.objects,
            environment,
            connect(process, bootstrap.credentials),
            ProcessDirectory(None),
            lambda: "",
        )
        self.host.checker = world.checker
        self._bootstrap = bootstrap
        self._ended = ended
        self._kernel = kernel
        self._is_killed = False
        process.on_death.append(self._died)
        kernel.spawn(process, "host", self._run, kernel.between(5, 60))

    @property
    def incarnation(self) -> int:
        return self._bootstrap.incarnation

    def kill(self) -> None:
        self._is_killed = True
        self.process.die()

    def _run(self) -> None:
        self.host.run()
        self.process.die()

    def _died(self) -> None:
        """The supervisor notices the end a little later."""
        if not self._is_killed:
            self._kernel.after(self._kernel.between(0, 40), None, self._ended, self.incarnation, "killed", "")


class SimHost(TaskHost):
    """Shows its tasks to the checker."""

    checker: Checker

    def running_tasks(self) -> list[Task]:
        tasks = [task for attempt in self._current for task in attempt.tasks.values()]
        return [task for task in tasks if task.is_alive and not task.has_finished]

    def task_changed(
        self,
        execution: ExecutionId,
        status: TaskStatus,
        error: str = "",
        trace: str = "",
        *,
        is_final: bool = False,
        identity: ErrorIdentity | None = None,
    ) -> None:
        if status is TaskStatus.FINISHED:
            task = self._task(execution)
            assert task is not None
            chain = task._chain
            head: Any = chain.operators[0] if chain.source is None else chain.source._reader
            self.checker.task_finished(self._shipment.job_id, execution, head)
        super().task_changed(execution, status, error, trace, is_final=is_final, identity=identity)


def _turn_ms(world: World, thread: str) -> int:
    """Duration of a thread's turn: longer for tasks of slow vertices."""
    vertex = thread.partition("[")[0]
    if vertex in world.scenario.slow_vertices:
        return world.kernel.between(60, 200)
    return world.kernel.between(2, 30) if thread != "host" else 0


def _no_time(thread: str) -> int:
    del thread
    return 0
