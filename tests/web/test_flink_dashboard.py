"""Flink's own dashboard in front of our REST interface, in a real browser, with real jobs behind it.

The browser's console must stay empty, and no call of the dashboard may fail. The pages of it that have no counterpart
here (logs, thread dumps, profiler, submission of jars, rescaling) are not opened.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Locator, Response, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from tests.web.dashboard_proxy import DashboardProxy, dashboard_proxy
from tests.web.page_kit import Viewer, eventually

import snapline as sl
from snapline.api.job_handle import JobHandle
from snapline.devtools.servers.flink_dashboard import flink_dashboard_files, flink_dashboard_jar
from snapline.devtools.servers.servers_command import REQUIRE
from snapline.errors import ConfigurationError
from snapline.testing import ProcessCluster
from snapline.web.rest_ids import hex_id

pytestmark = pytest.mark.slow

FAILED_CHECKPOINT = 2
CLICKS, CLICK_MS = 6, 10_000
STANDS_STILL = "() => [...document.querySelectorAll('flink-dagre svg')].every(drawn => !drawn.__transition)"


class RefusesOne(sl.MasterHook):
    """One checkpoint fails."""

    name = "refuses-one"

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        if checkpoint_id == FAILED_CHECKPOINT:
            raise RuntimeError("the ledger is closed")
        return None

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """Nothing to restore."""


@dataclass(frozen=True)
class ShownJob:
    """A running job with the dashboard in front of it."""

    handle: JobHandle
    proxy: DashboardProxy

    @property
    def jid(self) -> str:
        return hex_id(self.handle.id)

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.proxy.url}{path}", timeout=60) as response:
            return json.loads(response.read())


def clicks(name: str, directory: Path, monitoring: sl.Monitoring | None = None) -> sl.Job:
    """A job that fails once, as soon as there is a file `fail`."""
    fail = directory / "fail"

    def fail_once(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            os.unlink(fail)
        except FileNotFoundError:
            return batch
        raise ValueError("a row that nobody can read")

    job = sl.Job(
        name,
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="1s", storage=str(directory / "checkpoints"), history=1000),
        restart=sl.FixedDelay(attempts=3, delay="100ms"),
        hooks=[RefusesOne()],
        monitoring=monitoring or sl.Monitoring(port=None),
    )
    (
        job.source(sl.sources.Rate(2000, users=50), uid="clicks")
        .map_batches(fail_once, uid="fail-once")
        .with_watermarks(sl.Watermarks("time", delay="1s"))
        .key_by("user")
        .aggregate(n=sl.count(), total=sl.sum("value"), uid="per-user")
        .sink(sl.sinks.Files(str(directory / "counts")), uid="counts")
    )
    return job


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    try:
        return flink_dashboard_files(flink_dashboard_jar())
    except ConfigurationError as error:
        if os.environ.get(REQUIRE) == "1":
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def show(files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ShownJob]]:
    """`show("clicks")` starts a job with the dashboard in front of it, and waits for its first checkpoint."""
    with ExitStack() as stack:

        def start(name: str, monitoring: sl.Monitoring | None = None) -> ShownJob:
            handle = clicks(name, tmp_path_factory.mktemp("job"), monitoring).start(ProcessCluster())
            stack.callback(_end, handle)
            shown = ShownJob(handle, stack.enter_context(dashboard_proxy(files, handle.url)))
            eventually(lambda: handle.checkpoints().counts.completed)
            return shown

        yield start


def _end(handle: JobHandle) -> None:
    if not handle.status().is_globally_terminal:
        handle.cancel("60s")


@pytest.fixture(scope="module")
def job(show: Callable[..., ShownJob]) -> ShownJob:
    """A job with completed checkpoints, a failed one, a savepoint and a restart from a checkpoint."""
    shown = show("clicks & <b>more</b>")
    handle = shown.handle
    directory = Path(handle.view().checkpoints.storage or "").parent
    eventually(lambda: handle.checkpoints().counts.failed)
    handle.savepoint(str(directory / "savepoints"), timeout="60s")
    (directory / "fail").touch()
    eventually(lambda: handle.checkpoints().latest.restored)
    restored = handle.checkpoints().counts.completed
    eventually(lambda: handle.checkpoints().counts.completed >= restored + 3)
    return shown


@dataclass
class Dashboard:
    """Somebody who looks at the dashboard. `failed` are calls that were answered with an error."""

    viewer: Viewer
    shown: ShownJob
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.viewer.page.on("response", self._note)

    def _note(self, response: Response) -> None:
        if response.status >= 400:
            self.failed.append(f"{response.status} {response.request.method} {response.url}")

    def open(self, path: str) -> Locator:
        """Go to a page. The result is all of it."""
        self.viewer.page.goto(f"{self.shown.proxy.url}#/{path}")
        return self.viewer.page.locator("body")

    def open_job(self, path: str) -> Locator:
        return self.open(f"job/running/{self.shown.jid}/{path}")

    def part(self, name: str) -> Locator:
        """A component of the page."""
        return self.viewer.page.locator(name)

    def choose(self, component: str, tab: str) -> Locator:
        """Click on a tab. The result is what it shows."""
        found = self.part(component)
        found.get_by_role("tab", name=tab, exact=True).click()
        return found.locator(".ant-tabs-tabpane-active")

    def wait_for_graph(self) -> None:
        """Wait until the dataflow is drawn, and stands still: the dashboard complains if one leaves while it moves."""
        expect(self.part("flink-job-overview flink-dagre")).to_contain_text("Busy (max):")
        self.viewer.page.wait_for_function(STANDS_STILL)

    def look(self, name: str) -> None:
        self.viewer.page.screenshot(path=self.viewer.pictures / f"flink-{name}.png")


@pytest.fixture
def dashboard(viewer: Callable[..., Viewer]) -> Iterator[Callable[[ShownJob], Dashboard]]:
    """After the test no call of theirs may have failed."""
    made: list[Dashboard] = []

    def make(shown: ShownJob) -> Dashboard:
        made.append(Dashboard(viewer(), shown))
        return made[-1]

    yield make
    assert [call for dashboard in made for call in dashboard.failed] == []


Show = Callable[..., ShownJob]
Open = Callable[[ShownJob], Dashboard]


def test_the_job_is_found_in_the_lists(job: ShownJob, dashboard: Open) -> None:
    seen = dashboard(job)
    body = seen.open("overview")
    row = seen.part("tbody tr").filter(has_text=job.handle.name)
    expect(row).to_contain_text("RUNNING")
    expect(body).to_contain_text("Total Task Slots2")
    expect(body).to_contain_text("Task Managers2")
    seen.look("overview")
    row.get_by_text(job.handle.name).click()
    expect(seen.part("flink-application")).to_contain_text(job.jid)
    seen.look("application")
    seen.part("flink-application tbody tr").filter(has_text=job.handle.name).get_by_text(job.handle.name).click()
    expect(seen.part("flink-job")).to_contain_text("Job State")
    expect(seen.viewer.page).to_have_url(re.compile(f"/job/running/{job.jid}/"))
    seen.wait_for_graph()
    # It may begin to move again: a page that is gone cannot complain.
    seen.viewer.page.goto("about:blank")
    seen.open("job/running")
    expect(seen.part("tbody tr").filter(has_text=job.handle.name)).to_contain_text("RUNNING")


def test_the_checkpoints_page(job: ShownJob, dashboard: Open) -> None:
    seen = dashboard(job)
    seen.open_job("checkpoints")
    overview = seen.part("flink-job-checkpoints .ant-tabs-tabpane-active")
    latest = job.handle.checkpoints().latest
    assert latest.savepoint is not None
    assert latest.savepoint.completion is not None
    path = latest.savepoint.completion.external_path
    assert path is not None
    assert latest.restored is not None
    expect(overview).to_contain_text(
        re.compile(r"Triggered: \d+.*Completed: \d+.*Failed: [1-9].*Restored: 1", re.DOTALL)
    )
    # The one that was refused, or one that was under way when the job failed.
    assert latest.failed is not None
    assert latest.failed.failure is not None
    expect(overview).to_contain_text(f"ID: {latest.failed.id}")
    expect(overview).to_contain_text(latest.failed.failure.message)
    expect(overview).to_contain_text(path)
    expect(overview).to_contain_text(re.compile(rf"Latest Restore\s*ID: {latest.restored.id}"))
    expect(overview).to_contain_text("2/2 (100%)")
    seen.look("checkpoints")

    history = seen.choose("flink-job-checkpoints", "History")
    for checkpoint_id, status in ((FAILED_CHECKPOINT, "FAILED"), (latest.savepoint.id, "COMPLETED")):
        expect(_row(history, checkpoint_id)).to_contain_text(status)

    savepoint = job.ask(f"jobs/{job.jid}/checkpoints/details/{latest.savepoint.id}")
    row = _row(history, latest.savepoint.id)
    expect(row).to_contain_text(_duration(savepoint["end_to_end_duration"]))
    expect(row).to_contain_text(_size(savepoint["state_size"]))
    details = history.locator("flink-job-checkpoints-detail").filter(has_text=path)
    _expand(row, details)
    expect(details).to_contain_text("Checkpoint Type: savepoint")
    expect(details).to_contain_text("Savepoint Format: CANONICAL")
    operator = details.locator("tr").filter(has_text="aggregate -> Files").first
    expect(operator).to_contain_text("2/2 (100%)")
    vertex = hex_id("per-user")
    part = job.ask(f"jobs/{job.jid}/checkpoints/details/{latest.savepoint.id}/subtasks/{vertex}")
    subtasks = details.locator("flink-job-checkpoints-subtask")
    _expand(operator, subtasks)
    for words in ("Minimum", "Average", "Maximum", _size(part["summary"]["state_size"]["max"])):
        expect(subtasks).to_contain_text(words)
    for subtask in part["subtasks"]:
        line = subtasks.locator(f'tbody tr:has(td:first-child:text-is("{subtask["index"]}"))')
        expect(line).to_contain_text(_duration(subtask["end_to_end_duration"]))
        expect(line).to_contain_text(_size(subtask["checkpointed_size"]))
        expect(line).to_contain_text("false")
    seen.look("checkpoint-subtasks")

    details = history.locator("flink-job-checkpoints-detail").filter(has_text="the ledger is closed")
    _expand(_row(history, FAILED_CHECKPOINT), details)
    operator = details.locator("tr").filter(has_text="aggregate -> Files").first
    expect(operator).to_contain_text("0/2 (0%)")
    subtasks = details.locator("flink-job-checkpoints-subtask")
    _expand(operator, subtasks)
    expect(subtasks).to_contain_text("n/a")

    summary = seen.choose("flink-job-checkpoints", "Summary")
    for words in ("Minimum", "Average", "Maximum", "99.9% percentile", "KB"):
        expect(summary).to_contain_text(words)
    seen.look("checkpoint-summary")

    configuration = seen.choose("flink-job-checkpoints", "Configuration")
    for words in ("Exactly Once", "FileSystemCheckpointStorage", "HashMapStateBackend", "10m"):
        expect(configuration).to_contain_text(words)
    expect(configuration.locator("tr").filter(has_text="Interval").first).to_contain_text("1s")
    seen.look("checkpoint-configuration")


def test_the_dataflow_and_its_vertices(job: ShownJob, dashboard: Open) -> None:
    seen = dashboard(job)
    body = seen.open_job("overview")
    for words in (
        "Rate -> map_batches -> with_watermarks",
        "aggregate -> Files",
        "HASH",
        "Busy (max):",
        "Low Watermark:",
    ):
        expect(body).to_contain_text(words)
    seen.look("job")
    vertex = hex_id("per-user")
    drawer = seen.part("flink-job-overview-drawer")
    for tab, words in (
        ("detail", "Max Parallelism"),
        ("subtasks", "127.0.0.1"),
        ("taskmanagers", "127.0.0.1"),
        ("watermarks", "(UTC)"),
        ("accumulators", "No Data"),
        ("backpressure", "Back Pressure Status:"),
        ("metrics", "Add Metric:"),
        ("flamegraph", "currently disabled"),
    ):
        seen.open_job(f"overview/{vertex}/{tab}")
        expect(drawer).to_contain_text(words)
        seen.wait_for_graph()
        seen.look(f"vertex-{tab}")
    seen.open_job(f"overview/{vertex}/subtasks")
    expect(drawer.locator("tbody tr").filter(has_text="RUNNING")).to_have_count(2)
    seen.open_job(f"overview/{vertex}/metrics")
    drawer.locator("nz-select").click()
    seen.viewer.page.get_by_text("0.busyTimeMsPerSecond", exact=True).click()
    expect(drawer.locator("canvas")).to_be_visible()
    eventually(lambda: any(f"{vertex}/metrics?get=0.busyTime" in path for _, path, _ in list(job.proxy.calls)))
    seen.look("vertex-metrics")


def test_other_pages_of_the_job(job: ShownJob, dashboard: Open) -> None:
    seen = dashboard(job)
    body = seen.open_job("exceptions")
    expect(body).to_contain_text("ValueError: a row that nobody can read")
    seen.choose("flink-job-exceptions", "Exception History")
    expect(body).to_contain_text("UserCodeError")
    expect(body).to_contain_text("clicks/")
    seen.look("exceptions")
    seen.open_job("dataskew")
    expect(seen.part("tbody tr").filter(has_text="aggregate -> Files")).to_contain_text("%")
    seen.open_job("timeline")
    chart = seen.part("flink-job-timeline canvas").first
    expect(chart).to_be_visible()
    eventually(lambda: _opened_subtasks(seen, chart))
    expect(seen.part("flink-job-timeline")).to_contain_text("SubTask TimeLine")
    seen.look("timeline")
    body = seen.open_job("configuration")
    for words in ("FixedDelay (attempts: 3, delay_ms: 100)", "checkpoints.interval_ms", "checkpoints.storage"):
        expect(body).to_contain_text(words)
    seen.look("configuration")


def test_the_processes(job: ShownJob, dashboard: Open) -> None:
    seen = dashboard(job)
    seen.open("task-manager")
    expect(seen.part("tbody tr").filter(has_text="slot-")).to_have_count(2)
    seen.look("task-managers")
    expect(seen.open("job-manager/metrics")).to_contain_text("Flink Memory Model")
    body = seen.open("job-manager/config")
    for words in ("snapline.version", "CPython"):
        expect(body).to_contain_text(words)
    body = seen.open(f"application/running/{job.jid}/exceptions")
    expect(body).to_contain_text("ValueError: a row that nobody can read")


def test_a_job_is_cancelled(show: Show, dashboard: Open) -> None:
    shown = show("to be cancelled")
    seen = dashboard(shown)
    seen.open_job("overview")
    seen.wait_for_graph()
    seen.viewer.page.get_by_text("Cancel Job", exact=True).click()
    seen.viewer.page.get_by_role("button", name="Yes").click()
    assert shown.handle.wait("60s") is sl.JobStatus.CANCELED
    expect(seen.part("flink-job-status")).to_contain_text("CANCELED")
    assert ("GET", f"/jobs/{shown.jid}/yarn-cancel", 202) in shown.proxy.calls
    seen.open("job/completed")
    expect(seen.part("tbody tr").filter(has_text=shown.handle.name)).to_contain_text("CANCELED")
    seen.look("cancelled")
    seen.open(f"job/completed/{shown.jid}/checkpoints")
    expect(seen.part("flink-job-checkpoints")).to_contain_text("Latest Completed Checkpoint")


def test_an_application_is_cancelled(show: Show, dashboard: Open) -> None:
    shown = show("an application")
    seen = dashboard(shown)
    seen.open(f"application/running/{shown.jid}/jobs")
    seen.viewer.page.get_by_text("Cancel Application", exact=True).click()
    seen.viewer.page.get_by_role("button", name="Yes").click()
    assert shown.handle.wait("60s") is sl.JobStatus.CANCELED
    assert ("POST", f"/applications/{shown.jid}/cancel", 202) in shown.proxy.calls
    seen.open("application/completed")
    expect(seen.part("tbody tr").filter(has_text=shown.handle.name)).to_contain_text("CANCELED")


def test_a_server_that_is_read_only_offers_no_cancel(show: Show, dashboard: Open) -> None:
    shown = show("only to be read", sl.Monitoring(port=None, read_only=True))
    seen = dashboard(shown)
    seen.open_job("overview")
    expect(seen.part("flink-job-status")).to_contain_text(shown.jid)
    seen.wait_for_graph()
    expect(seen.viewer.page.get_by_text("Cancel Job", exact=True)).to_have_count(0)


def _duration(value_ms: int) -> str:
    """How the dashboard begins to write a duration."""
    seconds, milliseconds = divmod(value_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes}m" if minutes else f"{seconds}s" if seconds else f"{milliseconds}ms"


def _row(history: Locator, checkpoint_id: int) -> Locator:
    """The row of a checkpoint in the history."""
    return history.locator("tbody tr.ant-table-row").filter(has_text=re.compile(rf"^\s*{checkpoint_id}\s*[A-Z]")).first


def _expand(row: Locator, content: Locator) -> None:
    """Open what is below a row. The dashboard redraws its tables all the while, and a click in between is lost."""
    for _ in range(CLICKS):
        row.locator("button.ant-table-row-expand-icon").first.click()
        try:
            content.wait_for(timeout=CLICK_MS)
        except PlaywrightTimeoutError:
            continue
        return
    raise AssertionError(f"{CLICKS} clicks have not opened the row")


def _size(size: int) -> str:
    """A size as the dashboard writes it."""
    if size < 1000:
        return f"{size} B"
    kilobytes = size / 1024
    return f"{kilobytes:.{max(0, 2 - len(str(int(kilobytes))) + 1)}f} KB"


def _opened_subtasks(seen: Dashboard, chart: Locator) -> bool:
    """Click on a bar of the timeline; its place is known only to the chart."""
    box = chart.bounding_box()
    assert box is not None
    for share in (0.3, 0.4, 0.5, 0.6, 0.7):
        chart.click(position={"x": box["width"] * 0.6, "y": box["height"] * share})
    return any(path.endswith("/subtasktimes") for path in seen.shown.proxy.paths())
