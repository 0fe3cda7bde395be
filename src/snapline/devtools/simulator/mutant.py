"""A mutant: one piece of the product, broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from snapline.devtools.simulator.scenario import Fault, Handler


@dataclass(frozen=True, slots=True)
class Mutant:
    """Replaces `owner.attribute` by what `build` makes of the original.

    Its scenarios have this `handler` and this `fault` besides their own: those in which the broken piece matters.
    """

    name: str
    about: str
    owner: Any
    attribute: str
    build: Callable[[Any], Any]
    handler: Handler | None = None
    fault: Fault | None = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The product is broken inside this context."""
        original = getattr(self.owner, self.attribute)
        setattr(self.owner, self.attribute, self.build(original))
        try:
            yield
        finally:
            setattr(self.owner, self.attribute, original)


def nothing(_original: Any) -> Any:
    return lambda *_args, **_kwargs: None


def always(value: Any) -> Callable[[Any], Any]:
    return lambda _original: lambda *_args, **_kwargs: value
