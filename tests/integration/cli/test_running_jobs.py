"""Commands from a second terminal, against jobs of real drivers."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.integration.cli.command_kit import DEADLINE_S, Place, wait_until

pytestmark = pytest.mark.slow


def test_a_job_is_found_by_name_url_and_storage_and_its_address_goes_with_it(place: Place) -> None:
    with place.driver() as driver:
        assert place.entries() == [f"clicks@{driver.pid}.json"]
        address = place.directory / "chk" / "clicks" / "monitor" / "address.json"
        assert address.stat().st_mode & 0o777 == 0o600
        found = [place.json("status", job) for job in ("clicks", driver.url, address.parents[2], address.parents[1])]
        assert {job["job_id"] for job in found} == {"clicks"}
        listed = place.json("list")
        assert [(job["name"], job["status"], job["pid"]) for job in listed["jobs"]] == [
            ("clicks", "RUNNING", driver.pid)
        ]
        assert place.json("list", place.directory / "chk")["jobs"][0]["url"] == driver.url
        done = place.run("cancel", "clicks")
        assert (done.code, done.out, done.err) == (0, "", "clicks is cancelled\n")
        driver.wait()
    assert place.entries() == []
    assert not address.exists()
    assert place.run("status", "clicks").code == 3
    assert place.run("list").out == "No jobs are running.\n"


def test_without_a_directory_of_its_own(place: Place) -> None:
    with place.driver("create_subdirectory=False"):
        assert (place.directory / "chk" / "clicks" / "monitor" / "address.json").exists()
        assert place.json("status", place.directory / "chk")["job_id"] == "clicks"


def test_checkpoints_savepoints_events_and_their_end(place: Place) -> None:
    with place.driver():
        path = place.run("checkpoint", "clicks", "--scope", "full").out.strip()
        number = int(path.rpartition("chk-")[2])
        assert path == f"{place.directory}/chk/clicks/chk-{number}"
        savepoint = place.run("savepoint", "clicks", place.directory / "mine")
        assert savepoint.code == 0, savepoint.err
        assert Path(savepoint.out.strip(), "_metadata").exists()
        native = place.json("savepoint", "clicks", "--format", "native")
        assert native["location"].startswith(f"{place.directory}/sp/")
        shown = place.json("checkpoints", "clicks", "--limit", "1000")
        assert {"CHECKPOINT", "SAVEPOINT"} <= {row["type"] for row in shown["history"]}
        assert place.json("checkpoints", "clicks", "--id", number)["id"] == number
        text = place.run("checkpoints", "clicks").out
        assert "savepoint, native" in text
        events = [event["text"] for event in place.json("events", "clicks")["events"]]
        assert events[0] == "CREATED -> INITIALIZING"
        follower = place.start("events", "clicks", "--follow", "--json")
        watcher = place.start("checkpoints", "clicks", "--watch")
        assert place.run("dispose", savepoint.out.strip(), "--yes").code == 0
        assert not Path(savepoint.out.strip()).exists()
        assert place.run("dispose", native["location"], "--job", "clicks", "--yes").code == 0
        assert not Path(native["location"]).exists()
        elsewhere = place.run("dispose", "/somewhere/else", "--job", "clicks", "--yes")
        assert (elsewhere.code in (1, 2), "in no directory of this job" in elsewhere.err) == (True, True)
        stopped = place.run("stop", "clicks", "--savepoint", place.directory / "last")
        assert stopped.code == 0, stopped.err
        assert place.run("inspect", stopped.out.strip()).code == 0
        out, err = follower.communicate(DEADLINE_S)
        assert (follower.returncode, err) == (0, "")
        followed = [json.loads(line)["text"] for line in out.splitlines()]
        assert followed[: len(events)] == events
        assert len(followed) == len(set(enumerate(followed)))
        out, err = watcher.communicate(DEADLINE_S)
        assert (watcher.returncode, err) == (0, "")
        assert out.count("completed") > 2


@pytest.mark.parametrize("what", ["stop", "cancel"])
def test_a_program_that_ends_at_once_with_its_job(place: Place, what: str) -> None:
    """Its server is gone before it can be asked: the storage tells how the job ended."""
    for number in range(3):
        with place.driver(name=f"clicks-{number}") as driver:
            done = place.run(what, f"clicks-{number}")
            assert done.code == 0, done.err
            assert (what == "stop") == Path(done.out.strip() or "/none", "_metadata").exists()
            driver.wait()


def test_a_driver_that_was_killed_is_noticed_and_its_successor_found(place: Place) -> None:
    storage = place.directory / "chk"
    with place.driver() as driver:
        wait_until(lambda: place.json("status", "clicks")["counts"]["completed"] > 0, "a checkpoint completes")
        driver.kill()
    for job in ("clicks", storage, storage / "clicks"):
        gone = place.run("status", job)
        assert gone.code == 3
        assert f"its driver (process {driver.pid} on" in gone.err or "is called 'clicks'; none is running" in gone.err
    assert place.entries() == []
    listed = place.run("list", storage)
    assert (listed.code, "job 'clicks' is not running: its driver" in listed.err) == (0, True)
    with place.driver() as successor:
        wait_until(lambda: place.json("status", "clicks")["attempt"] == 2, "its attempt begins")
        for job in ("clicks", storage, storage / "clicks", successor.url):
            status = place.json("status", job)
            assert (status["attempt"], status["url"]) == (2, successor.url)
        savepoint = place.run("stop", "clicks").out.strip()
        assert Path(savepoint, "_metadata").exists()
        successor.wait()
    with place.driver(f"restore_from={savepoint}", name="clicks-next"):
        restored = wait_until(lambda: place.json("checkpoints", "clicks-next")["restored"], "it has restored")
        assert (restored["is_savepoint"], restored["external_path"]) == (True, savepoint)


def test_a_server_for_others_asks_for_a_token_which_only_the_owner_has(place: Place, tmp_path: Path) -> None:
    with place.driver("monitoring.host=0.0.0.0") as driver:
        (token,) = (place.home / "tokens").iterdir()
        assert token.stat().st_mode & 0o777 == 0o600
        storage = place.directory / "chk"
        for job in ("clicks", storage, driver.url):
            assert place.json("status", job)["job_id"] == "clicks", job
        other = {"SNAPLINE_HOME": str(tmp_path / "other")}
        refused = place.run("status", storage, changes=other)
        assert (refused.code, "--token-file" in refused.err) == (2, True)
        assert place.run("status", storage, "--token-file", token, changes=other).code == 0
        assert place.run("status", storage, changes={**other, "SNAPLINE_TOKEN": token.read_text()}).code == 0
        assert place.run("status", storage, changes={**other, "SNAPLINE_TOKEN": "wrong"}).code == 2
        assert "the page asks for a token; it is in" in place.run("ui", "clicks").err


def test_a_server_that_only_shows(place: Place) -> None:
    with place.driver("monitoring.read_only=True"):
        assert place.run("status", "clicks", "--check").code == 0
        for what in ("checkpoint", "savepoint", "stop", "cancel"):
            refused = place.run(what, "clicks")
            assert (refused.code, "read-only" in refused.err) == (1, True)


def test_a_checkpoint_directory_that_cannot_be_written_to_any_more_shows_up(place: Place) -> None:
    place.environment["LIMITED"] = "yes"
    storage = place.directory / "chk"
    with place.driver("interval=400ms"):
        wait_until(lambda: place.json("status", "clicks")["counts"]["completed"] > 0, "a checkpoint completes")
        assert place.run("status", "clicks", "--check").code == 0
        directories = [storage, *(path for path in storage.rglob("*") if path.is_dir())]
        for directory in directories:
            directory.chmod(0o555)
        try:
            wait_until(lambda: place.run("status", "clicks", "--check").code == 1, "it is not healthy")
            text = place.run("status", "clicks").out
            shown = place.run("checkpoints", "clicks").out
        finally:
            for directory in directories:
                directory.chmod(0o755)
        assert "check that the checkpoint storage can be reached and written to, and is not full" in text
        assert "Permission denied" in text
        assert "Permission denied" in shown
        wait_until(lambda: place.run("status", "clicks", "--check").code == 0, "it is well again")


def test_ctrl_c_ends_what_goes_on(place: Place) -> None:
    with place.driver():
        place.environment.pop("PYTHONWARNINGS")  # a request that is interrupted leaves its socket open
        for arguments in (("events", "clicks", "--follow"), ("checkpoints", "clicks", "--watch")):
            process = place.start(*arguments)
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(DEADLINE_S)
            assert (process.returncode, err) == (130, "")


def test_the_page_of_what_is_stored(place: Place) -> None:
    with place.driver() as driver:
        wait_until(lambda: place.json("status", "clicks")["counts"]["completed"] > 1, "checkpoints complete")
        running = place.run("ui", place.directory / "chk" / "clicks")
        assert (running.code, running.out.strip()) == (0, driver.url)
        place.run("stop", "clicks")
        driver.wait()
    process = place.start("ui", place.directory / "chk", "--port", "4300-4399")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        shown = place.json("status", url)
        assert (shown["status"], shown["is_live"], shown["can_change"]) == ("FINISHED", False, False)
        assert place.json("checkpoints", url)["counts"]["completed"] > 1
        assert place.run("cancel", url).code == 1
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(DEADLINE_S)
        assert (process.returncode, err) == (0, "serving what is stored, until Ctrl-C\n")
    finally:
        process.close()
