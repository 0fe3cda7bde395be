"""What Spark's own UI shows of a job, looked at over HTTP. Without a UI: see `test_applications.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TIMEOUT_S = 600.0

DRIVER = """
import json, os, re, signal, sys, time, urllib.request

from pyspark.sql import SparkSession

import snapline as sl
from snapline.devtools.kit.processes import operator_processes

directory = sys.argv[1]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "true")
    .config("spark.ui.port", "0")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
context = spark.sparkContext
job = sl.Job(
    "clicks <i>& more</i>",
    parallelism=2,
    checkpoints=sl.Checkpoints(interval="500ms", storage=directory),
    monitoring=sl.Monitoring(port=None),
)
job.source(sl.sources.Rate(100), uid="rows").sink(sl.sinks.Foreach(str), uid="out")
handle = job.start(spark)


def until(condition):
    deadline = time.monotonic() + 120
    while not (value := condition()):
        assert time.monotonic() < deadline, handle
        time.sleep(0.05)
    return value


def get(url):
    with urllib.request.urlopen(url, timeout=120) as answer:
        return answer.geturl(), answer.status, answer.read().decode()


def descriptions():
    return re.findall(r'<span class="description-input">(.*?)</span>', get(f"{context.uiWebUrl}/jobs/")[2], re.DOTALL)


def ours():
    return [text for text in descriptions() if text.startswith("Snapline job")]


until(lambda: handle.progress().completed)
seen = {"url": handle.url, "first": ours()}
link = re.search(r'href="([^"]+)"', seen["first"][0])[1]
seen["link"] = link
seen["followed"] = get(f"{context.uiWebUrl}{link}")
os.kill(operator_processes(os.getpid())[0].parent, signal.SIGKILL)
seen["second"] = until(lambda: [text for text in ours() if "from attempt 2 on" in text])
handle.cancel("120s")
spark.stop()
print(json.dumps(seen))
"""


def run_driver(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "driver.py"
    path.write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, path, tmp_path / "chk"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def test_the_jobs_tab_has_name_attempt_and_a_link_to_the_page(tmp_path: Path) -> None:
    seen = run_driver(tmp_path)
    (first,) = seen["first"]
    assert first == (
        f'Snapline job clicks &lt;i&gt;&amp; more&lt;/i&gt;, from attempt 1 on: <a href="{seen["link"]}">page</a>'
    )
    assert seen["link"] == "/snapline/clicks-i-more-i"
    url, status, html = seen["followed"]
    assert status == 200
    assert url.partition("#")[0] == seen["url"].partition("#")[0]
    assert "<title>Snapline" in html
    assert len(seen["second"]) == 1
