"""The page of real jobs on Spark, in a real browser: every tab, every button, and a driver that is killed."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.web.page_kit import Driver, Viewer, eventually

from snapline.devtools.servers.server_process import free_port

pytestmark = pytest.mark.slow

SLOWEST_S = 300.0
"""Checkpoints of a job that is slow on purpose take their time."""

View = Callable[..., Viewer]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def driver(start_driver: Callable[..., Driver], directory: Path) -> Driver:
    """Two jobs of one program, which therefore share a server."""
    driver = start_driver(directory, free_port(), "clicks", "orders")
    eventually_completed(driver.told["clicks"], 5)
    return driver


def answer(url: str, path: str = "") -> Any:
    """What the REST interface says about the job at this page."""
    root, _, jid = url.partition("/#/jobs/")
    with urllib.request.urlopen(f"{root}/snapline/jobs/{jid}{path}", timeout=30) as response:
        return json.loads(response.read())


def eventually_completed(url: str, count: int) -> None:
    eventually(lambda: answer(url)["counts"]["completed"] >= count, within_s=SLOWEST_S)


def test_all_jobs_of_a_program_are_listed(driver: Driver, viewer: View) -> None:
    seen = viewer()
    seen.page.goto(driver.told["clicks"].partition("#")[0])
    rows = seen.page.get_by_role("table").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("running")
    seen.look("jobs-light")
    seen.check_access()
    rows.get_by_role("link", name="orders").click()
    expect(seen.page.locator("h1")).to_have_text("orders")
    expect(seen.page).to_have_title("orders: running - Snapline")


def test_every_tab(driver: Driver, viewer: View) -> None:
    """As in `test_page.py`, where dark pages and phones have their turns, on jobs that run."""
    seen = viewer()
    page = seen.page
    seen.open(driver.told["clicks"])
    expect(page.locator(".title .status")).to_have_text("running")
    expect(page.locator(".graph a.vertex")).to_have_count(len(answer(driver.told["clicks"])["plan"]["vertices"]))
    expect(page.get_by_role("figure")).to_be_visible()
    seen.check_access()
    seen.look("overview-light")

    page.get_by_role("button", name="per-user").click()
    expect(page.get_by_role("region", name="Subtasks of per-user").locator("tbody tr")).to_have_count(2)
    seen.check_access()
    seen.look("vertex-light")

    seen.choose("Checkpoints")
    expect(page.get_by_role("region", name="Latest completed checkpoint")).to_contain_text("End-to-end duration")
    expect(page.get_by_role("figure")).to_have_count(2)
    seen.check_access()
    seen.look("checkpoints-light")

    seen.choose("Checkpoints", "History")
    page.locator("tr:has-text('completed')").first.get_by_role("button").click()
    details = page.locator(".checkpoint-details")
    expect(details.locator(".timeline")).to_contain_text("per-user")
    details.get_by_role("button", name="per-user").click()
    expect(details.get_by_role("region", name="Subtasks of per-user in checkpoint").locator("tbody tr")).to_have_count(
        2
    )
    seen.check_access()
    seen.look("history-light")

    seen.choose("Checkpoints", "Summary")
    expect(page.get_by_role("table").locator("tbody tr")).to_have_count(5)
    seen.check_access()
    seen.look("summary-light")

    seen.choose("Checkpoints", "Configuration")
    timeout = page.locator("tr").filter(has=page.get_by_role("rowheader", name="timeout", exact=True))
    expect(timeout.locator("td")).to_have_text("2 min 3 s")
    seen.check_access()
    seen.look("configuration-light")

    seen.choose("Events")
    page.get_by_role("searchbox").fill("-> running")
    expect(page.get_by_role("region", name="Events, newest first")).to_contain_text("INITIALIZING -> RUNNING")
    seen.check_access()
    seen.look("events-light")


def test_the_configuration_is_what_the_job_runs_with(driver: Driver, viewer: View) -> None:
    seen = viewer()
    seen.open(driver.told["clicks"])
    seen.choose("Checkpoints", "Configuration")
    settings = answer(driver.told["clicks"], "/configuration")
    expect(seen.page.locator(".settings tbody tr")).to_have_count(sum(len(section) for section in settings.values()))
    assert settings["checkpoints"]["timeout_ms"] == 123_000
    seen.page.get_by_role("searchbox").fill("timeout")
    expect(seen.page.locator(".settings tbody tr")).to_have_count(
        sum("timeout" in f"{name} {value}".lower() for section in settings.values() for name, value in section.items())
    )


def test_figures_and_history_move_on_by_themselves(driver: Driver, viewer: View) -> None:
    seen = viewer()
    seen.open(driver.told["clicks"])
    seen.choose("Checkpoints", "History")
    first = seen.page.locator(".history tbody tr").first
    first.get_by_role("button").focus()
    opened = int(seen.page.evaluate("document.activeElement.textContent"))
    seen.page.keyboard.press("Enter")
    newest = seen.page.locator(".history tbody tr:not(.opened) > th button").first
    eventually(lambda: int(newest.inner_text()) >= opened + 3)
    # Neither the focus nor the opened row has moved.
    assert int(seen.page.evaluate("document.activeElement.textContent")) == opened
    expect(seen.page.locator(".checkpoint-details")).to_have_count(1)
    assert seen.page.url.endswith(f"/checkpoints/history/{opened}")


def test_a_checkpoint_is_taken_at_a_click(driver: Driver, viewer: View) -> None:
    seen = viewer()
    seen.open(driver.told["clicks"])
    seen.page.get_by_role("button", name="Checkpoint now").click()
    expect(seen.page.get_by_role("dialog", name="Take a checkpoint now?")).to_be_visible()
    seen.check_access()
    seen.look("dialog-light", whole=False)
    seen.page.keyboard.press("Escape")
    expect(seen.page.get_by_role("dialog")).not_to_be_visible()

    seen.confirm("Checkpoint now", "Take checkpoint", scope="FULL")
    notice = seen.page.locator(".notices li")
    expect(notice).to_have_attribute("data-status", "done")
    expect(notice).to_contain_text("chk-")
    seen.page.get_by_role("button", name="Dismiss: Checkpoint").click()
    expect(notice).to_have_count(0)


def test_a_savepoint_is_taken_at_a_click(driver: Driver, viewer: View, directory: Path) -> None:
    seen = viewer()
    seen.open(driver.told["clicks"])
    seen.confirm("Savepoint", "Take savepoint", directory=str(directory / "savepoints"), format="NATIVE")
    notice = seen.page.locator(".notices li")
    expect(notice).to_have_attribute("data-status", "done")
    saved = Path(notice.locator("code").inner_text())
    assert saved.parent == directory / "savepoints"
    assert (saved / "_metadata").is_file()
    seen.look("savepoint-light")
    seen.choose("Checkpoints")
    latest = seen.page.get_by_role("region", name="Latest savepoint")
    expect(latest).to_contain_text("savepoint, native")
    expect(latest).to_contain_text(saved.name)


def test_what_fails_is_shown(driver: Driver, viewer: View, directory: Path) -> None:
    (directory / "a-file").touch()
    seen = viewer()
    seen.open(driver.told["clicks"])
    seen.confirm("Savepoint", "Take savepoint", directory=str(directory / "a-file" / "savepoints"))
    notice = seen.page.locator(".notices li")
    expect(notice).to_have_attribute("data-status", "failed")
    expect(notice).to_contain_text("Savepoint failed: ")
    expect(seen.page.locator("#said")).to_contain_text("Savepoint failed: ")


def test_a_slow_job_says_what_to_change(driver: Driver, viewer: View) -> None:
    seen = viewer()
    seen.page.set_viewport_size({"width": 1400, "height": 1000})
    seen.open(driver.told["orders"])
    expect(seen.page.get_by_role("region", name="Health")).to_contain_text("What to do: ")
    expect(seen.page.get_by_role("region", name="Health")).to_contain_text("alerts")
    expect(seen.page.locator(".edge.slow")).not_to_have_count(0)
    eventually_completed(driver.told["orders"], 3)
    strip = seen.page.get_by_role("region", name="Latest checkpoints")
    expect(strip.locator(".why")).to_contain_text("alerts")
    expect(seen.page.locator(".graph .vertex", has_text="clicks")).not_to_contain_text("read 0/s")
    seen.look("page", whole=False)
    seen.choose("Checkpoints", "History")
    seen.page.locator("tr", has_text="completed").first.get_by_role("button").click()
    expect(seen.page.locator(".explanation.warning")).to_contain_text("What to do: ")
    expect(seen.page.locator(".timeline")).to_contain_text("Critical path")
    seen.look("slow-light")


def test_a_job_is_cancelled_at_a_click(driver: Driver, viewer: View) -> None:
    seen = viewer()
    seen.open(driver.told["orders"])
    seen.page.get_by_role("button", name="Cancel", exact=True).click()
    # Whoever confirms without reading goes back.
    seen.page.keyboard.press("Enter")
    expect(seen.page.get_by_role("dialog")).not_to_be_visible()
    assert answer(driver.told["orders"])["status"] == "RUNNING"

    seen.confirm("Cancel", "Cancel the job")
    expect(seen.page.locator(".title .status")).to_have_text("canceled")
    expect(seen.page.locator(".banner").first).to_contain_text("The job was cancelled")
    for button in seen.page.get_by_role("group", name="Change the job").get_by_role("button").all():
        expect(button).to_be_disabled()
    expect(seen.page.locator("#why-not")).to_contain_text("The job has ended")
    assert answer(driver.told["orders"])["status"] == "CANCELED"
    seen.check_access()
    seen.look("cancelled-light")


def test_a_job_is_stopped_with_a_savepoint_at_a_click(driver: Driver, viewer: View, directory: Path) -> None:
    seen = viewer()
    seen.open(driver.told["clicks"])
    seen.confirm("Stop", "Stop the job", directory=str(directory / "last"), drain=True)
    notice = seen.page.locator(".notices li")
    expect(notice).to_have_attribute("data-status", "done")
    assert (Path(notice.locator("code").inner_text()) / "_metadata").is_file()
    expect(seen.page.locator(".title .status")).to_have_text("finished")
    expect(seen.page.locator(".banner", has_text="The job has finished")).to_be_visible()
    assert driver.hear()["clicks"] == "FINISHED"
    assert driver.hear()["orders"] == "CANCELED"
    seen.look("finished-light")


def test_a_driver_that_is_gone_and_comes_back(
    start_driver: Callable[..., Driver], driver: Driver, viewer: View, directory: Path
) -> None:
    driver.kill()
    port = free_port()
    first = start_driver(directory / "again", port, "clicks")
    url = first.told["clicks"]
    eventually_completed(url, 2)
    seen = viewer()
    seen.open(url)
    seen.choose("Checkpoints", "History")
    rows = seen.page.locator(".history tbody tr")
    expect(rows.first).to_be_visible()
    known = int(rows.first.locator("button").inner_text())

    first.kill()
    banner = seen.page.get_by_role("alert")
    expect(banner).to_contain_text("The driver is gone. It has not answered since")
    expect(seen.page).to_have_title("clicks: driver gone - Snapline")
    expect(seen.page.locator(".page.stale")).to_be_visible()
    assert rows.count() >= known - 1
    expect(seen.page.get_by_role("button", name="Savepoint")).to_be_disabled()
    seen.check_access()
    seen.look("gone-light")
    second = start_driver(directory / "again", port, "clicks")
    assert second.told["clicks"] == url
    expect(seen.page.locator(".title .status")).to_have_text("running")
    expect(banner).to_have_count(0)
    expect(seen.page.locator("tr.restore")).to_contain_text("The job was restored from checkpoint")
    # The browser itself notes in its console that nobody answered, in several words.
    seen.errors = [error for error in seen.errors if "Failed to load resource: net::ERR_" not in error]
    seen.look("back-light")
