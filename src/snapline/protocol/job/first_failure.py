"""Which failure of an attempt came first, and what became known about it later."""

from __future__ import annotations

from dataclasses import dataclass

MAX_LOG_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: a line of `cause`, a `trace` if a task raised, and the process's last `log` lines."""

    cause: str
    trace: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True)
class FailureDetails:
    """What a report says besides the cause. `lost_slot` is the slot that is lost for an unknown reason."""

    trace: str = ""
    log: str = ""
    lost_slot: int | None = None


NO_DETAILS = FailureDetails()


class FirstFailure:
    """The failure of the newest attempt that failed.

    When a process dies its neighbours lose their connections at the same moment, so only the first report counts as
    the cause, and what follows from it is left out. The end of a connection is the only failure that a later report
    explains: the supervisor knows how the process of that slot ended, and the provider why all slots ended.
    """

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self._lost_slot: int | None = None

    @property
    def trace(self) -> str:
        return "" if self.failure is None else self.failure.trace

    def failed(self, cause: str, details: FailureDetails) -> None:
        """An attempt that was running, or starting, fails."""
        self.failure = Failure(cause, details.trace, details.log[-MAX_LOG_CHARACTERS:])
        self._lost_slot = details.lost_slot

    def explained(self, text: str, log: str, slot: int | None) -> bool:
        """Say why `slot` was lost, or every slot if None. Returns False if that is not what failed."""
        if self.failure is None or self._lost_slot is None or slot not in (None, self._lost_slot):
            return False
        self.failure = Failure(f"{self.failure.cause}; {text}", self.failure.trace, log[-MAX_LOG_CHARACTERS:])
        self._lost_slot = None
        return True

    def replaced(self, cause: str) -> None:
        """The job ended for another reason than its last failure."""
        self.failure = Failure(cause)
        self._lost_slot = None
