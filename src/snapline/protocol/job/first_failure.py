"""Which failure of an attempt came first, and what became known about it later."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CAUSE_CHARACTERS = 4_000
MAX_LOG_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: a line of `cause`, a `trace` if a task raised, and the process's last `log` lines."""

    cause: str
    trace: str = ""
    log: str = ""

    def with_more(self, text: str, log: str) -> Failure:
        """The same failure with later information."""
        both = "\n".join(filter(None, (self.log, log)))[-MAX_LOG_CHARACTERS:]
        cause = f"{self.cause}; {text}" if len(self.cause) < MAX_CAUSE_CHARACTERS else self.cause
        return Failure(cause, self.trace, both)

    @property
    def message(self) -> str:
        return f"{self.cause}\n{self.trace}" if self.trace else self.cause


class FirstFailure:
    """The failure of the newest attempt that failed.

    When a process dies its neighbours lose their connections at the same moment, so only the first report counts as
    the cause. Later ones explain it: a connection reports the end of a process first, then its supervisor, which knows
    why.
    """

    def __init__(self) -> None:
        self.failure: Failure | None = None

    def failed(self, cause: str, trace: str, log: str) -> None:
        """An attempt that was running, or starting, fails."""
        self.failure = Failure(cause, trace, log)

    def explained(self, text: str, log: str) -> bool:
        """Add information. Returns False if no attempt has failed yet."""
        if self.failure is None:
            return False
        self.failure = self.failure.with_more(text, log)
        return True

    def replaced(self, cause: str) -> None:
        """The job ended for another reason than its last failure."""
        self.failure = Failure(cause)
