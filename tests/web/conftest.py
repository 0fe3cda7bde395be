"""A browser, viewers with it that note every error, and programs that run jobs on Spark.

Pictures of what the tests saw go to the folder that SNAPLINE_SCREENSHOTS names, else to pytest's temporary one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from tests.web.page_kit import DEADLINE_MS, PHONE, WIDE, Driver, Theme, Viewer

from snapline.devtools.servers.chromium import FLAGS, chromium_program
from snapline.devtools.servers.servers_command import REQUIRE
from snapline.errors import ConfigurationError

SCREENSHOTS = "SNAPLINE_SCREENSHOTS"
DRIVER = Path(__file__).parent / "spark_driver.py"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window. Without it the tests are skipped, or fail if SNAPLINE_REQUIRE_SERVERS is 1."""
    try:
        program = chromium_program()
    except ConfigurationError as error:
        if os.environ.get(REQUIRE) == "1":
            raise
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get(SCREENSHOTS)
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def viewer(browser: Browser, pictures: Path) -> Iterator[Callable[..., Viewer]]:
    """`viewer(theme="dark", phone=True)`: a new one. After the test none of them may have seen an error."""
    contexts: list[BrowserContext] = []
    viewers: list[Viewer] = []

    def make(theme: Theme = "light", *, phone: bool = False) -> Viewer:
        context = browser.new_context(viewport=PHONE if phone else WIDE, color_scheme=theme, locale="en-GB")
        contexts.append(context)
        seen = Viewer(context.new_page(), pictures)
        seen.page.set_default_timeout(DEADLINE_MS)
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on(
            "console",
            lambda message: seen.errors.append(message.text) if message.type in ("error", "warning") else None,
        )
        viewers.append(seen)
        return seen

    yield make
    for context in contexts:
        context.close()
    assert [error for seen in viewers for error in seen.errors] == []


@pytest.fixture(scope="module")
def start_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Driver]]:
    """`start_driver(directory, port)` starts `spark_driver.py` and waits until its jobs run."""
    drivers: list[Driver] = []

    def start(directory: Path, port: int, *jobs: str) -> Driver:
        log = tmp_path_factory.mktemp("driver") / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, str(DRIVER), str(directory), str(port), *jobs],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        driver = Driver(process)
        drivers.append(driver)
        driver.hear()
        return driver

    yield start
    for driver in drivers:
        driver.kill()
