"""Source subtasks: the splits they read, and how they ask for more."""

from __future__ import annotations

from collections.abc import Callable

from snapline.devtools.simulator.channels import Record
from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.operators import Operator
from snapline.devtools.simulator.scenario import KEYS, SimVertex

REQUEST_AGAIN_MS = 60


def record_of(source_number: int, split: int, offset: int) -> Record:
    """The n-th record of a split: the same whenever it is read."""
    record_id = (source_number * 8 + split) * 64 + offset
    return Record(record_id, (record_id * 7919 + 13) % KEYS)


class SplitReader:
    """Reads the splits of one source subtask; its position in each is the operator's state.

    `request` asks the source's coordinator for a split. It is called again until `assign` has brought the answer.
    """

    def __init__(
        self, kernel: Kernel, process: Process, vertex: SimVertex, operator: Operator, request: Callable[[], None]
    ) -> None:
        self.is_stopped = False
        self.has_all_splits = False
        self._kernel = kernel
        self._process = process
        self._number = int(vertex.id.rsplit("-", 1)[1])
        self._lengths = vertex.splits
        self._operator = operator
        self._request = request
        self._is_waiting = False

    def read(self) -> Record | None:
        """The next record; none if all splits are read, and then another one is asked for."""
        positions = self._operator.splits
        for split, offset in positions.items():
            if offset < self._lengths[split]:
                positions[split] = offset + 1
                return record_of(self._number, split, offset)
        if not self.has_all_splits and not self._is_waiting:
            self._is_waiting = True
            self._kernel.after(0, self._process, self._ask)
        return None

    def assign(self, split: int | None) -> None:
        """The coordinator's answer: a split, or none if there are no more."""
        self._is_waiting = False
        if split is None:
            self.has_all_splits = True
        else:
            self._operator.splits.setdefault(split, 0)

    def _ask(self) -> None:
        if self._is_waiting and not self.has_all_splits:
            self._request()
            self._kernel.after(REQUEST_AGAIN_MS, self._process, self._ask)
