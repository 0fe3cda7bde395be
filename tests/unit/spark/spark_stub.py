"""As much of a SparkSession as slots need, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


class Scala:
    """The part of Scala's SparkContext that is used."""

    def __init__(self, slots: Iterator[int]) -> None:
        self._slots = slots
        self.is_stopped = False
        self.error: Exception | None = None

    def isStopped(self) -> bool:
        if self.error is not None:
            raise self.error
        return self.is_stopped

    def resourceProfileManager(self) -> Any:
        return SimpleNamespace(defaultResourceProfile=lambda: None)

    def getExecutorMemoryStatus(self) -> Any:
        return SimpleNamespace(size=lambda: 3)

    def maxNumConcurrentTasks(self, profile: None) -> int:
        return next(self._slots)


class ClientServer:
    """The gateway of a PySpark with pinned threads."""


def forever(slots: int) -> Iterator[int]:
    while True:
        yield slots


def make_session(
    slots: int | Iterator[int] = 4, *, master: str = "local[4]", gateway: object = None, **settings: Any
) -> Any:
    scala = Scala(forever(slots) if isinstance(slots, int) else slots)
    known = {"spark.driver.host": "driver.example", **{name.replace("_", "."): text for name, text in settings.items()}}
    context = SimpleNamespace(
        master=master,
        applicationId=f"app-{id(scala)}",
        _jsc=SimpleNamespace(sc=lambda: scala),
        _gateway=gateway or ClientServer(),
        getConf=lambda: known,
        getLocalProperty=lambda name: None,
    )
    return SimpleNamespace(sparkContext=context, scala=scala)
