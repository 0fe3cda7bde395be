"""Somebody who looks at pages in a browser, and a driver of jobs on Spark that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

DEADLINE_MS = 60_000
WIDE = ViewportSize(width=1400, height=900)
PHONE = ViewportSize(width=360, height=740)

expect.set_options(timeout=DEADLINE_MS)

Theme = Literal["light", "dark"]


@dataclass
class Viewer:
    """Somebody who looks at the page. `errors` are those of its scripts and of the browser's console."""

    page: Page
    pictures: Path
    errors: list[str] = field(default_factory=list)

    def note(self, kind: str, text: str) -> None:
        """Called for each line of the browser's console."""
        if kind in ("error", "warning"):
            self.errors.append(text)

    def open(self, url: str) -> None:
        """Open a page, and wait until it shows the job."""
        self.page.goto(url)
        expect(self.page.locator("h1")).to_be_visible()

    def choose(self, tab: str, part: str = "") -> None:
        """Click on a tab, and on one of its parts."""
        self.page.get_by_role("tablist", name="Views of the job").get_by_role("tab", name=tab).click()
        if part:
            self.page.get_by_role("tablist", name="Checkpoints").get_by_role("tab", name=part, exact=True).click()

    def look(self, name: str, *, whole: bool = True) -> None:
        """Keep a picture, of the whole page or of what is on the screen. The page never scrolls sideways."""
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name}: wider than the page"
        self.page.screenshot(path=self.pictures / f"{name}.png", full_page=whole)

    def check_access(self) -> None:
        """No serious problem for people who use a keyboard or a screen reader, or see little."""
        found = Axe().run(self.page).response["violations"]
        serious = [item for item in found if item["impact"] in ("serious", "critical")]
        shown = [(item["id"], [node["html"][:200] for node in item["nodes"][:3]]) for item in serious]
        assert serious == [], json.dumps(shown, indent=1)

    def confirm(self, button: str, answer: str, **values: str | bool) -> None:
        """Press a button of the job, fill in its dialog, and confirm."""
        self.page.get_by_role("group", name="Change the job").get_by_role("button", name=button, exact=True).click()
        dialog = self.page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        for name, value in values.items():
            given = dialog.locator(f"[name={name}]")
            if value is True:
                given.check()
            elif given.evaluate("node => node.tagName") == "SELECT":
                given.select_option(str(value))
            else:
                given.fill(str(value))
        dialog.get_by_role("button", name=answer).click()
        expect(dialog).not_to_be_visible()


@dataclass
class Driver:
    """A program that runs jobs on Spark, as a process of its own. `told` is what it has said so far."""

    process: subprocess.Popen[str]
    told: dict[str, Any] = field(default_factory=dict)

    def hear(self) -> dict[str, Any]:
        """Wait for the next thing it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver has ended with {self.process.wait()}"
        self.told.update(json.loads(line))
        return self.told

    def kill(self) -> None:
        """Kill it and the JVM that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def eventually(condition: Callable[[], Any], *, within_s: float = DEADLINE_MS / 1000) -> Any:
    """The first true value of the condition."""
    deadline_s = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.05)
    return value
