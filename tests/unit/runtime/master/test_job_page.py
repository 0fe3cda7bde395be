"""A job gets a page if its settings say so, and runs without one if it cannot have it."""

from __future__ import annotations

import importlib.util
import json
import logging
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import snapline as sl
from snapline.graph.planner import make_spec
from snapline.runtime.master import job_page
from snapline.runtime.master.job_page import open_page
from snapline.runtime.master.job_storage import MasterStorage, open_storage
from snapline.runtime.master.master_thread import MasterThread
from snapline.testing import ThreadCluster
from snapline.web.web_server import close_all

Make = Callable[[sl.Monitoring | None], tuple[MasterThread, MasterStorage]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes threads of masters that are not started."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    made: list[tuple[MasterThread, MasterStorage]] = []

    def make_thread(monitoring: sl.Monitoring | None) -> tuple[MasterThread, MasterStorage]:
        checkpoints = sl.Checkpoints(storage=tmp_path / "storage")
        job = sl.Job("clicks", id="clicks", checkpoints=checkpoints, monitoring=monitoring)
        job.source(sl.sources.Rate(rows=1), uid="clicks").sink(sl.sinks.Files(tmp_path / "out"), uid="out")
        spec = make_spec(job)
        storage = open_storage(spec, None, None)
        made.append((MasterThread(spec, ThreadCluster().provider(), storage), storage))
        return made[-1]

    yield make_thread
    close_all()
    for thread, storage in made:
        thread._loop.close()
        storage.close()


def jobs_at(url: str) -> list[str]:
    root = url.partition("/#")[0]
    with urllib.request.urlopen(f"{root}/snapline/jobs", timeout=10) as answer:
        return [job["job_id"] for job in json.load(answer)["jobs"]]


@pytest.mark.parametrize("monitoring", [None, sl.Monitoring(enabled=False)])
def test_without_monitoring_there_is_no_page(make: Make, monitoring: sl.Monitoring | None) -> None:
    thread, storage = make(monitoring)
    page = open_page(thread, storage.objects)
    assert thread.url == ""
    page.close()


def test_a_page_is_served_and_its_address_written_until_it_is_closed(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    thread, storage = make(sl.Monitoring(port=None))
    with caplog.at_level(logging.INFO):
        page = open_page(thread, storage.objects)
    assert thread.url.startswith("http://127.0.0.1:")
    (record,) = [record for record in caplog.records if "its page is at" in record.getMessage()]
    assert (record.__dict__["job"], record.__dict__["job_id"]) == ("clicks", "clicks")
    address = tmp_path / "storage" / "clicks" / "monitor" / "address.json"
    assert json.loads(address.read_text())["url"] == thread.url
    page.close()
    assert not address.exists()


def test_two_jobs_share_a_server(make: Make) -> None:
    first, second = make(sl.Monitoring(port=None)), make(sl.Monitoring(port=None))
    pages = [open_page(thread, storage.objects) for thread, storage in (first, second)]
    assert first[0].url.partition("/#")[0] == second[0].url.partition("/#")[0]
    for page in pages:
        page.close()


def test_without_the_packages_the_job_runs_without_a_page(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    thread, storage = make(sl.Monitoring(port=None))
    there = importlib.util.find_spec
    monkeypatch.setattr(job_page, "find_spec", lambda name: None if name == "uvicorn" else there(name))
    open_page(thread, storage.objects)
    assert thread.url == ""
    assert "job clicks has no page, because uvicorn is not installed: pip install 'snapline[web]'" in caplog.text


def test_a_port_that_is_taken_costs_the_page_and_not_the_job(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    first, second = make(sl.Monitoring(port=None)), make(None)
    open_page(first[0], first[1].objects)
    port = int(first[0].url.partition("/#")[0].rpartition(":")[2].rstrip("/"))
    thread, storage = make(sl.Monitoring(port=port))
    open_page(thread, storage.objects)
    assert thread.url == ""
    assert "has no page" in caplog.text
    assert second[0].url == ""
