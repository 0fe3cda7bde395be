"""Messages as the client gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Message:
    at: tuple[str, int, int]
    data: bytes | None = b"{}"
    named: bytes | None = None
    marked: list[tuple[str, bytes | None]] | None = field(default=None)
    sent_ms: int = -1

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.at[2]

    def value(self) -> bytes | None:
        return self.data

    def key(self) -> bytes | None:
        return self.named

    def headers(self) -> Any:
        return self.marked

    def timestamp(self) -> tuple[int, int]:
        return (0 if self.sent_ms < 0 else 1), self.sent_ms
