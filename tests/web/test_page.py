"""The page in a real browser, of jobs that are put together by hand: what it shows, to whom, and how it behaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.web.page_kit import Viewer
from tests.web.staged_job import StagedJob, ended, staged_view

from snapline.config import Monitoring
from snapline.protocol.statistics.job_view import JobView
from snapline.types import JobStatus
from snapline.web.web_server import serve, withdraw

pytestmark = pytest.mark.slow

View = Callable[..., Viewer]
Show = Callable[..., str]

TABS = {
    "overview": ("Overview", ""),
    "checkpoints": ("Checkpoints", "Overview"),
    "history": ("Checkpoints", "History"),
    "summary": ("Checkpoints", "Summary"),
    "configuration": ("Checkpoints", "Configuration"),
    "events": ("Events", ""),
}


@pytest.fixture(scope="module")
def view() -> JobView:
    return staged_view(int(time.time() * 1000))


@pytest.fixture
def show(view: JobView) -> Iterator[Show]:
    """`show(view)` serves a job in this state and returns the URL of its page."""
    jobs: list[StagedJob] = []

    def start(state: JobView | None = None, *, can_change: bool = True, **settings: object) -> str:
        job = StagedJob(view if state is None else state, can_change)
        jobs.append(job)
        return serve(job, Monitoring(port=None, **settings)).url  # type: ignore[arg-type]

    yield start
    for job in jobs:
        withdraw(job)


def test_one_sees_at_once_what_is_wrong_and_what_to_do(show: Show, viewer: View) -> None:
    seen = viewer()
    seen.open(show())
    health = seen.page.get_by_role("region", name="Health")
    expect(health).to_contain_text("Back-pressure: totals is the bottleneck")
    expect(health).to_contain_text("What to do: Raise its parallelism")
    expect(health).not_to_contain_text("State in memory")
    expect(seen.page.locator("dl.figures").filter(has_text="Restarts")).to_contain_text("of 2.15 GB in a slot")
    restarts = seen.page.locator("details.failures")
    expect(restarts.locator("summary").first).to_contain_text("2 restarts")
    expect(restarts.locator("summary").first).to_contain_text("ZeroDivisionError")
    expect(seen.page.get_by_text("return amount / total")).not_to_be_visible()
    restarts.locator("summary").first.click()
    restarts.get_by_text("Trace", exact=True).click()
    expect(seen.page.get_by_text("return amount / total")).to_be_visible()
    health.get_by_role("link", name="show").first.click()
    expect(seen.page.get_by_role("region", name="Subtasks of totals")).to_be_visible()
    expect(seen.page.locator(".problems")).to_contain_text("output of 2 checkpoints waits for its commit")
    seen.look("staged-overview-light")


def test_no_text_is_taken_for_markup(show: Show, viewer: View) -> None:
    seen = viewer()
    seen.open(show())
    for tab, part in TABS.values():
        seen.choose(tab, part)
        if part == "History":
            seen.page.get_by_role("button", name="379").click()
            expect(seen.page.locator(".checkpoint-details")).to_contain_text("onerror=")
    expect(seen.page.get_by_role("table").filter(has_text="<img src=x")).to_have_count(1)
    expect(seen.page.locator("img")).to_have_count(0)
    expect(seen.page).to_have_title("orders per customer: running - Snapline")


@pytest.mark.parametrize(
    ("theme", "phone", "name"), [("light", False, "light"), ("dark", False, "dark"), ("dark", True, "phone")]
)
def test_everybody_can_use_every_view(show: Show, viewer: View, theme: str, phone: bool, name: str) -> None:
    seen = viewer(theme, phone=phone)
    seen.open(show())
    for view_name, (tab, part) in TABS.items():
        seen.choose(tab, part)
        expect(seen.page.locator(".panel").first).to_be_visible()
        if part == "History":
            seen.page.get_by_role("button", name="396").click()
            expect(seen.page.locator(".timeline")).to_be_visible()
        seen.check_access()
        seen.look(f"staged-{view_name}-{name}")


def test_the_keyboard_reaches_everything(show: Show, viewer: View) -> None:
    seen = viewer()
    page = seen.page
    seen.open(show())
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()

    tabs = page.get_by_role("tablist", name="Views of the job")
    tabs.get_by_role("tab", name="Overview").focus()
    page.keyboard.press("ArrowRight")
    expect(tabs.get_by_role("tab", name="Checkpoints")).to_be_focused()
    expect(tabs.get_by_role("tab", name="Checkpoints")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Home")
    expect(tabs.get_by_role("tab", name="Overview")).to_be_focused()
    expect(tabs.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")

    vertex = page.get_by_role("button", name="per-customer")
    vertex.focus()
    page.keyboard.press("Space")
    expect(vertex).to_have_attribute("aria-expanded", "true")
    page.locator(".graph a").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Subtasks of orders")).to_be_visible()


def test_a_slow_checkpoint_explains_itself(show: Show, viewer: View) -> None:
    seen = viewer()
    page = seen.page
    seen.open(show())
    seen.choose("Checkpoints", "History")
    page.get_by_role("button", name="396").click()
    details = page.locator(".checkpoint-details")
    expect(details.locator(".explanation")).to_contain_text(
        "Subtask 3 of per-customer waited 2.8 s for its last barrier"
    )
    expect(details.locator(".explanation")).to_contain_text("What to do: Turn on unaligned checkpoints")
    expect(details.locator(".path-list li")).to_have_count(6)
    # Drawn to scale: lengths are as the durations.
    lane = details.locator(".lane", has=page.get_by_role("heading", name="per-customer"))
    delay, alignment = (
        lane.locator(f"rect.{part}").nth(3).evaluate("node => node.width.baseVal.value")
        for part in ("start-delay", "alignment")
    )
    assert alignment / delay == pytest.approx((240 + 37 * 3) * 8 / (130 * 8 + 15), rel=0.02)
    details.get_by_role("button", name="totals").click()
    subtasks = details.get_by_role("region", name="Subtasks of totals in checkpoint")
    expect(subtasks.locator("tbody tr")).to_have_count(4)
    expect(subtasks.locator("tbody tr").first).to_contain_text("35 ms")


def test_failures_are_told_with_their_reasons(show: Show, viewer: View) -> None:
    seen = viewer()
    seen.open(show())
    seen.choose("Checkpoints")
    expect(seen.page.get_by_role("region", name="Latest failed checkpoint")).to_contain_text("CHECKPOINT_EXPIRED")
    expect(seen.page.get_by_role("region", name="Latest that could not start")).to_contain_text(
        "NOT_ALL_REQUIRED_TASKS_RUNNING"
    )
    seen.choose("Checkpoints", "History")
    expect(seen.page.locator("tr", has_text="checkpoint expired")).to_have_count(2)
    expect(seen.page.locator("tr.restore")).to_contain_text("restored from checkpoint")
    seen.page.get_by_role("button", name="379").click()
    expect(seen.page.locator(".explanation.bad")).to_contain_text("totals/2 did not answer")


def test_a_link_leads_to_a_checkpoint_that_the_list_no_longer_has(show: Show, viewer: View, view: JobView) -> None:
    statistics = replace(view.statistics, history=view.statistics.history[:5])
    seen = viewer()
    seen.open(show(replace(view, statistics=statistics)))
    seen.choose("Checkpoints")
    seen.page.get_by_role("link", name="Savepoint 386").click()
    expect(seen.page.locator(".checkpoint-details")).to_contain_text("savepoint, canonical")
    expect(seen.page.locator(".history > .scroll > table > tbody > tr:not(.opened)")).to_have_count(5 + 2)
    seen.open(f"{seen.page.url.rpartition('/')[0]}/4711")
    expect(seen.page.locator(".history .banner")).to_contain_text("4711")
    seen.errors = [error for error in seen.errors if "404" not in error]


def test_large_jobs_do_not_freeze_the_page(show: Show, viewer: View) -> None:
    seen = viewer()
    page = seen.page
    seen.open(show(staged_view(int(time.time() * 1000), parallelism=1000, checkpoints=6)))
    page.get_by_role("button", name="per-customer").click()
    rows = page.get_by_role("region", name="Subtasks of per-customer").locator("tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Show all 1,000").click()
    expect(rows).to_have_count(1000)
    page.get_by_role("button", name="Show only 100").click()
    expect(rows).to_have_count(100)
    seen.choose("Checkpoints", "History")
    page.locator(".history tbody tr button").nth(3).click()
    lane = page.locator(".lane", has=page.get_by_role("heading", name="per-customer"))
    expect(lane.locator("g")).to_have_count(16)
    lane.get_by_role("button", name="Show all 1,000").click()
    expect(lane.locator("g")).to_have_count(1000)


def test_a_refresh_changes_only_what_differs(show: Show, viewer: View) -> None:
    seen = viewer()
    page = seen.page
    seen.open(show())
    seen.choose("Events")
    search = page.get_by_role("searchbox")
    expect(page.get_by_role("region", name="Events, newest first")).to_contain_text("event 1")
    search.fill("event 1")
    for _ in range(2):  # with the second answer, what the first one has changed is there
        page.wait_for_event("response", lambda response: "/events" in response.url)
    page.evaluate("for (const node of document.querySelectorAll('#page *')) node.wasThere = true; scrollTo(0, 120)")
    for _ in range(3):
        page.wait_for_event("response", lambda response: "/events" in response.url)
    assert page.evaluate("[...document.querySelectorAll('#page *')].every((node) => node.wasThere)")
    assert page.evaluate("scrollY") == 120
    expect(search).to_be_focused()
    expect(search).to_have_value("event 1")


def test_a_page_that_nobody_sees_asks_seldom(show: Show, viewer: View) -> None:
    seen = viewer()
    page = seen.page
    page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => window.isAway === true })")
    seen.open(show())
    page.evaluate("window.isAway = true")
    asked_s = []
    for _ in range(3):
        page.wait_for_event("request", lambda request: "/snapline/jobs/" in request.url and "?" not in request.url)
        asked_s.append(time.monotonic())
    assert asked_s[2] - asked_s[1] > 5
    page.evaluate("window.isAway = false; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_event("request", lambda request: "/snapline/jobs/" in request.url)
    assert time.monotonic() - asked_s[2] < 8


def test_the_page_needs_nothing_from_elsewhere(show: Show, viewer: View) -> None:
    seen = viewer()
    url = show()
    asked: list[str] = []
    seen.page.on("request", lambda request: asked.append(request.url))
    seen.open(url)
    assert len(asked) > 10
    assert {address.startswith(url.partition("#")[0]) for address in asked} == {True}


def test_the_theme_can_be_chosen_and_stays(show: Show, viewer: View) -> None:
    seen = viewer("light")
    seen.open(show())
    background = "getComputedStyle(document.body).backgroundColor"
    light = seen.page.evaluate(background)
    button = seen.page.get_by_role("button", name="Theme: ")
    for theme in ("light", "dark"):
        button.click()
        expect(button).to_have_text(theme)
    dark = seen.page.evaluate(background)
    assert dark != light
    seen.page.reload()
    expect(button).to_have_text("dark")
    assert seen.page.evaluate(background) == dark
    button.click()
    expect(button).to_have_text("system")
    assert seen.page.evaluate(background) == light


def test_without_permission_nothing_can_be_changed(show: Show, viewer: View) -> None:
    seen = viewer()
    seen.open(show(read_only=True))
    expect(seen.page.get_by_role("button", name="Savepoint")).to_be_disabled()
    expect(seen.page.locator("#why-not")).to_contain_text("Read only")
    seen.check_access()


def test_without_the_token_nothing_is_shown(show: Show, viewer: View) -> None:
    url = show(token="a token of this test")
    seen = viewer()
    seen.page.goto(url)
    expect(seen.page.locator("body")).to_contain_text("token")
    expect(seen.page.locator("body")).not_to_contain_text("orders per customer")
    seen.open(url.replace("/#/", "/?token=a+token+of+this+test#/"))
    expect(seen.page.locator("h1")).to_have_text("orders per customer")
    assert "token" not in seen.page.url
    # It has asked again and again without one, the last time perhaps just before.
    assert seen.errors
    seen.errors[:] = [error for error in seen.errors if "401 (Unauthorized)" not in error]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (JobStatus.FAILED, "The job has failed"),
        (JobStatus.FINISHED, "The job has finished"),
        (JobStatus.SUSPENDED, "The job is suspended"),
    ],
)
def test_the_end_of_a_job_is_told(show: Show, viewer: View, view: JobView, status: JobStatus, text: str) -> None:
    seen = viewer()
    seen.open(show(ended(view, status)))
    expect(seen.page.locator(".banner").first).to_contain_text(text)
    expect(seen.page.locator("#why-not")).to_contain_text("The job has ended")
    seen.check_access()
    seen.look(f"staged-{status.value.lower()}-light")


def test_a_job_that_is_read_from_its_storage(show: Show, viewer: View, view: JobView) -> None:
    seen = viewer()
    seen.open(show(replace(view, is_live=False, subtasks=()), can_change=False))
    expect(seen.page.locator(".banner").first).to_contain_text("No driver runs this job")
    expect(seen.page.locator("#why-not")).to_contain_text("No driver runs this job")
    seen.check_access()
    seen.look("staged-storage-light")


def test_pictures_are_kept(pictures: Path, show: Show, viewer: View) -> None:
    seen = viewer()
    seen.open(show())
    seen.look("kept")
    assert (pictures / "kept.png").stat().st_size > 10_000
