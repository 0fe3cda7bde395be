"""The regions of a job: the parts of its graph that no edge connects. After a failure each can restart by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from snapline.types import SubtaskId


class Regions:
    """Numbered in the order of their first vertices. `coupled` says why all of them restart together, if they do.

    A vertex that is not known belongs to the first.
    """

    def __init__(
        self, parallelism: Mapping[str, int] | None = None, edges: Iterable[tuple[str, str]] = (), coupled: str = ""
    ) -> None:
        self.coupled = coupled
        self._parallelism = dict(parallelism or {})
        self._number = _numbered(self._parallelism, edges)
        self.all = frozenset(range(max(self._number.values(), default=0) + 1))

    def of(self, vertex: str) -> int:
        return self._number.get(vertex, 0)

    def in_slot(self, slot: int | None) -> frozenset[int]:
        """The regions with a subtask in this slot, or in any: slot i runs subtask i of every vertex that has one."""
        if slot is None:
            return self.all
        return frozenset(self._number[vertex] for vertex, count in self._parallelism.items() if slot < count)

    def vertices(self, regions: Iterable[int]) -> frozenset[str]:
        wanted = frozenset(regions)
        return frozenset(vertex for vertex, number in self._number.items() if number in wanted)

    def part(self, regions: frozenset[int] | None) -> frozenset[str] | None:
        """The vertices of some regions; None is the whole job."""
        return None if regions is None else self.vertices(regions)

    def subtasks(self, regions: Iterable[int]) -> frozenset[SubtaskId]:
        vertices = self.vertices(regions)
        return frozenset(SubtaskId(vertex, index) for vertex in vertices for index in range(self._parallelism[vertex]))

    def restart_text(self, regions: frozenset[int] | None) -> str:
        """What restarts: "3 of 6 subtasks: region of 'orders'". None is all."""
        total = sum(self._parallelism.values())
        if regions is None:
            together = f" of {len(self.all)} regions" if len(self.all) > 1 else ""
            return f"all {total} subtasks{together}{self.coupled and f', because {self.coupled}'}"
        heads = [next(vertex for vertex, of in self._number.items() if of == number) for number in sorted(regions)]
        names = ", ".join(repr(head) for head in heads)
        return f"{len(self.subtasks(regions))} of {total} subtasks: region{'s' * (len(heads) > 1)} of {names}"


def _numbered(vertices: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    group = {vertex: number for number, vertex in enumerate(vertices)}
    for source, target in edges:
        one, other = sorted((group[source], group[target]))
        group = {vertex: one if number == other else number for vertex, number in group.items()}
    numbers = {number: place for place, number in enumerate(dict.fromkeys(group.values()))}
    return {vertex: numbers[number] for vertex, number in group.items()}
