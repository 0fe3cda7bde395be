"""The commands in docs/rest.md work, and answer as the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.docs_pages import DOCS
from tests.integration.web.live_kit import Client, Start, clicks, started

import snapline as sl
from snapline.web.metrics_page import MAX_SUBTASKS

pytestmark = pytest.mark.slow

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(curl(?:.|\\\n)*)\n# (.*)$", re.MULTILINE)


def test_the_commands_of_the_page(start: Start, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    client = Client(start(clicks("clicks", tmp_path, sl.Monitoring(port=None))).url)
    started(client, "clicks")
    (tmp_path / "token").write_text("any: none is asked for on loopback")
    environment = {"TOKEN_FILE": str(tmp_path / "token"), "PATH": "/usr/bin:/bin"}
    found = [match for block in BLOCK.findall((DOCS / "rest.md").read_text()) for match in COMMAND.findall(block)]
    assert len(found) == 13
    for command, expected in found:
        answer = run(command, client.root, environment)
        for name in ("request_id", "request-id"):
            if (asked := re.search(rf'"{name}":"(\w+)"', answer)) and "POST" in command:
                environment["REQUEST_ID"] = asked[1]
                client.outcome(asked[1])
        pattern = re.escape(expected).replace(re.escape("..."), ".*")
        assert re.match(pattern, answer, re.DOTALL), f"{command}\n{answer[:2000]}"


def run(command: str, root: str, environment: dict[str, str]) -> str:
    text = command.replace("http://127.0.0.1:4300", root)
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=environment, timeout=60, check=True)
    return done.stdout


def test_the_page_names_every_metric(start: Start, tmp_path: Path) -> None:
    client = Client(start(clicks("clicks", tmp_path, sl.Monitoring(port=None))).url)
    started(client, "clicks")
    text = (DOCS / "rest.md").read_text()
    assert f"more than {MAX_SUBTASKS} subtasks" in text
    families = set(re.findall(r"^# TYPE (\w+)", client.ask("GET", "/metrics").body.decode(), re.MULTILINE))
    assert len(families) > 30
    for name in families:
        kind = name.split("_")[1]
        rest = name.removeprefix(f"snapline_{kind}")
        parts = {
            rest,
            rest.removeprefix("_last_checkpoint"),
            re.sub(r"^_number_of_(.*)_checkpoints$", r"..._\1_...", rest),
        }
        assert name in text or any(f"`{part}`" in text for part in parts), name
