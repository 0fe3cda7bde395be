from __future__ import annotations

import http.client
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapline.config import Monitoring, Secret
from snapline.devtools.kit.sample_views import ScriptedJob, sample_view
from snapline.types import JobStatus
from snapline.web import web_server
from snapline.web.rest_ids import hex_id
from snapline.web.web_server import Served, close_all, serve, withdraw

DEADLINE_S = 10.0
ANY = Monitoring(port=None)


@pytest.fixture(autouse=True)
def own_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of a test is left behind: neither threads nor sockets."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    before = set(threading.enumerate()), set(os.listdir("/proc/self/fd"))
    yield
    close_all()
    assert set(threading.enumerate()) == before[0]
    left = {name for name in set(os.listdir("/proc/self/fd")) - before[1] if os.path.exists(f"/proc/self/fd/{name}")}
    assert left == set()


def shown(job_id: str = "clicks", **options: Any) -> ScriptedJob:
    return ScriptedJob(sample_view(job_id, **options))


def port_of(served: Served) -> int:
    return int(served.url.partition("/#")[0].rpartition(":")[2])


def ask(served: Served, path: str, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served), timeout=DEADLINE_S)
    try:
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def jobs_of(served: Served) -> list[str]:
    return [row["job_id"] for row in ask(served, "/snapline/jobs")[1]["jobs"]]


def test_a_job_is_served_until_it_is_withdrawn() -> None:
    job = shown()
    served = serve(job, ANY)
    assert served.url == f"http://127.0.0.1:{port_of(served)}/#/jobs/{hex_id('clicks')}"
    assert served.token_file is None
    assert ask(served, f"/jobs/{hex_id('clicks')}")[1]["state"] == "RUNNING"
    withdraw(job)
    with pytest.raises(ConnectionRefusedError):
        ask(served, "/jobs")
    withdraw(job)


def test_several_jobs_share_a_server() -> None:
    first, second = shown("first"), shown("second")
    served = serve(first, ANY)
    assert port_of(serve(second, ANY)) == port_of(served)
    assert jobs_of(served) == ["first", "second"]
    withdraw(first)
    assert jobs_of(served) == ["second"]


def test_other_settings_make_another_server() -> None:
    ports = {
        port_of(serve(shown(f"job-{number}"), monitoring))
        for number, monitoring in enumerate(
            (
                ANY,
                Monitoring(port=None, read_only=True),
                Monitoring(port=None, token="a"),
                Monitoring(port=None, token="b"),
            )
        )
    }
    assert len(ports) == 4


def test_jobs_that_have_ended_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(shown("ended", status=JobStatus.FINISHED), ANY)
    serve(shown("running"), ANY)
    assert jobs_of(served) == ["ended", "running"]


def test_a_port_in_use_is_a_warning_and_the_job_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with caplog.at_level(logging.WARNING):
            assert serve(shown(), Monitoring(port=port)) == Served("", None)
    (record,) = caplog.records
    assert f"job job clicks has no page: Monitoring(port='{port}'): is in use" in record.getMessage()


def test_a_token_that_is_not_to_be_had_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert serve(shown(), Monitoring(port=None, token=Secret.env("NO_SUCH_TOKEN"))).url == ""
    assert "NO_SUCH_TOKEN" in caplog.text


def test_a_token_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    served = serve(shown(), Monitoring(port=None, token=Secret.file(file)))
    assert served.token_file == str(file)
    assert ask(served, "/jobs")[0] == 401
    assert ask(served, "/jobs", Authorization="Bearer s3cret")[0] == 200
    given = serve(shown(), Monitoring(port=None, token="other"))
    assert given.token_file is None


def test_a_server_for_others_makes_up_a_token(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        served = serve(shown(), Monitoring(host="0.0.0.0", port=None))
        assert served.token_file is not None
        token = Path(served.token_file).read_text()
        assert stat.S_IMODE(os.stat(served.token_file).st_mode) == 0o600
        assert ask(served, "/jobs", Host="jobs.example")[0] == 401
        assert ask(served, "/jobs?token=" + token)[0] == 401
        assert ask(served, "/jobs", Authorization=f"Bearer {token}")[0] == 200
    assert token not in caplog.text
    close_all()
    assert not os.path.exists(served.token_file)


def test_without_a_place_for_the_token_nothing_is_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "home").write_text("no directory")
    with caplog.at_level(logging.WARNING):
        assert serve(shown(), Monitoring(host="0.0.0.0", port=None)) == Served("", None)
    assert "has no page" in caplog.text


def test_a_new_server_can_be_had_after_all_are_closed() -> None:
    served = serve(shown(), ANY)
    assert jobs_of(served) == ["clicks"]
    close_all()
    again = serve(shown(), Monitoring(port=port_of(served)))
    assert port_of(again) == port_of(served)
    assert jobs_of(again) == ["clicks"]


def test_a_server_that_is_closed_before_it_was_ready() -> None:
    for _ in range(5):
        serve(shown(), ANY)
        close_all()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_was_forked_does_not_keep_the_port() -> None:
    served = serve(shown(), ANY)
    assert jobs_of(served) == ["clicks"]
    ready, readiness = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(readiness, b"x" if web_server._servers.by_address == {} else b"y")
        signal.pause()
    try:
        assert os.read(ready, 1) == b"x"
        close_all()
        with socket.create_server(("127.0.0.1", port_of(served))):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(readiness)


PROGRAM = """
import socket
from snapline.config import Monitoring
from snapline.devtools.kit.sample_views import ScriptedJob, sample_view
from snapline.web.web_server import serve
served = serve(ScriptedJob(sample_view()), Monitoring(host="0.0.0.0", port=None))
port = int(served.url.partition("/#")[0].rpartition(":")[2])
held = socket.create_connection(("127.0.0.1", port))
print(served.token_file)
"""


@pytest.mark.slow
def test_a_program_ends_with_its_server() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not os.path.exists(ended.stdout.strip())
