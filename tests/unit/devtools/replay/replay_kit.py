"""Scripts in, outcomes out: what the tests of the replay tool share."""

from __future__ import annotations

import json
from typing import Any

from snapline.devtools.replay.replay_command import answer


def replay(kind: str, **script: Any) -> dict[str, Any]:
    answered: dict[str, Any] = json.loads(answer(kind, json.dumps({"id": "x", **script})))
    assert answered.pop("id") == "x"
    return answered


def error_of(kind: str, **script: Any) -> str:
    answered = replay(kind, **script)
    assert list(answered) == ["error"]
    return str(answered["error"])
