"""Waits for what was asked of a job, and shows that it does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from snapline.cli.job_lookup import RunningJob
from snapline.cli.terminal_output import printable, warn
from snapline.cli.usage import OperationError, UnreachableError
from snapline.text import duration_text

POLL_S = 0.1
"""Short, since a driver may end soon after its job, and nobody can answer then."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What became of a request, as the server tells: `GET /snapline/operations/:request_id`."""

    request_id: str
    what: str
    status: str
    location: str | None = None
    checkpoint_id: int | None = None
    error: str | None = None

    @classmethod
    def of(cls, answer: dict[str, Any], what: str) -> Operation:
        return cls(
            answer["request_id"],
            answer.get("what") or what,
            answer["status"],
            answer.get("location"),
            answer.get("checkpoint_id"),
            answer.get("error"),
        )


Lost = Callable[[], Operation | None]
"""Finds out what became of a request whose driver has ended, or returns None."""


def await_operation(
    job: RunningJob, request_id: str, what: str, *, timeout_ms: int | None = None, lost: Lost = lambda: None
) -> Operation:
    """Wait until the operation is done or has failed. `what` is what it is called, such as "the savepoint of clicks".

    Raises `OperationError` after `timeout_ms`. Ctrl-C ends only the waiting, and says so.
    """
    began_s = time.monotonic()
    try:
        with _spinner(what) as show:
            while True:
                try:
                    operation = Operation.of(job.client.get(f"/snapline/operations/{quote(request_id, safe='')}"), what)
                except UnreachableError as error:
                    if (known := lost()) is not None:
                        return known
                    raise OperationError(
                        f"{what}: the driver has ended before it could tell what became of it ({error}); look at its "
                        "log, or at the directory of savepoints"
                    ) from None
                if operation.status != "running":
                    return operation
                elapsed_ms = (time.monotonic() - began_s) * 1000
                if timeout_ms is not None and elapsed_ms >= timeout_ms:
                    raise OperationError(
                        f"{what} has not come to its end within {duration_text(timeout_ms)}; it goes on, as request "
                        f"{request_id}"
                    )
                show(elapsed_ms)
                time.sleep(POLL_S)
    except KeyboardInterrupt:
        warn(f"{what} goes on, as request {request_id}; only the waiting for it has ended")
        raise


@contextmanager
def _spinner(what: str) -> Iterator[Callable[[float], None]]:
    """On a terminal, a line that shows how long it takes; elsewhere nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal or not sys.stderr.isatty():
        yield lambda _: None
        return
    with console.status(printable(what)) as status:

        def show(elapsed_ms: float) -> None:
            if elapsed_ms >= 1000:
                status.update(printable(f"{what}: {duration_text(elapsed_ms)}"))

        yield show
