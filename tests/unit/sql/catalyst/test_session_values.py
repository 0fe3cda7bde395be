from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from snapline.sql.catalyst.session_values import SESSION_VALUES, session_value


class _Session:
    """Answers each query with its text."""

    def sql(self, text: str) -> Any:
        return SimpleNamespace(first=lambda: (text,))


def test_the_session_is_asked_for_each_value() -> None:
    session: Any = _Session()
    assert session_value(session, "CurrentTimeZone") == "SELECT current_timezone()"
    assert {session_value(session, kind) for kind in SESSION_VALUES} == {
        f"SELECT {call}" for call in SESSION_VALUES.values()
    }
