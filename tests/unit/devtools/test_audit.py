"""What an audit of packages makes of the reports it gets."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from snapline.devtools.audit import main

CLEAN = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "not on this index"}
BROKEN = {
    "name": "c",
    "version": "2",
    "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}, {"id": "X", "fix_versions": []}],
}


def report(*packages: Any, status: int = 0) -> tuple[str, ...]:
    text = json.dumps({"dependencies": packages})
    return sys.executable, "-c", f"import sys; print({text!r}); sys.exit({status})"


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (report(CLEAN, SKIPPED), 0, "1 packages audited, 1 without advisories, 0 vulnerabilities"),
        (report(CLEAN, BROKEN, status=1), 1, "c 2: CVE-1, fixed in 3\nc 2: X, fixed in no version"),
        ((sys.executable, "-c", "import sys; sys.exit('no network')"), 0, "packages not audited: no network"),
        ((sys.executable, "-c", "print('[]')"), 0, "packages not audited: no report"),
    ],
)
def test_only_vulnerabilities_fail(
    command: tuple[str, ...], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == status
    assert said in capsys.readouterr().out


def test_an_index_that_does_not_answer_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main((sys.executable, "-c", "import time; time.sleep(60)"), timeout_s=0.01) == 0
    assert "no answer within 0.01 s" in capsys.readouterr().out
