"""Log records that say what they are about."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextvars import copy_context

import pytest

import snapline as sl
from snapline.runtime.job_logs import JobLogger, set_log_fields
from snapline.runtime.scheduler.system_threads import SystemThreads
from snapline.storage.objects.daemon_pool import DaemonPool

NAME = "snapline.test_job_logs"


@pytest.fixture
def log() -> Iterator[JobLogger]:
    logger = logging.getLogger(NAME)
    logger.setLevel(logging.DEBUG)
    yield JobLogger(NAME)
    logger.setLevel(logging.NOTSET)
    logger.handlers.clear()


def to_stream(formatter: logging.Formatter) -> io.StringIO:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.getLogger(NAME).addHandler(handler)
    return stream


def test_fields_are_attributes_of_the_record(log: JobLogger, caplog: pytest.LogCaptureFixture) -> None:
    log.warning("checkpoint %d failed", 7, checkpoint=7, attempt=0, vertex=None)
    (record,) = caplog.records
    assert record.getMessage() == "checkpoint 7 failed"
    assert (vars(record)["checkpoint"], vars(record)["attempt"]) == (7, 0)
    assert not hasattr(record, "vertex")


def test_extra_of_the_caller_stays(log: JobLogger, caplog: pytest.LogCaptureFixture) -> None:
    log.info("x", job="j", extra={"mine": 1})
    assert (vars(caplog.records[0])["job"], vars(caplog.records[0])["mine"]) == ("j", 1)


def test_a_thread_and_the_pools_it_uses_log_for_the_same_job(log: JobLogger, caplog: pytest.LogCaptureFixture) -> None:
    pool = DaemonPool(1, "pool")

    def work() -> None:
        set_log_fields(job="clicks", vertex="map")
        log.info("on the thread", subtask=1)
        pool.submit(log.info, "on the pool").result()
        inner = SystemThreads().thread(lambda: log.info("on a thread of the thread"), "inner")
        inner.start()
        inner.join()

    thread = SystemThreads().thread(work, "worker")
    thread.start()
    thread.join()
    pool.submit(log.info, "of nobody").result()
    pool.shutdown()
    about = {record.getMessage(): vars(record) for record in caplog.records}
    assert {text: (about[text].get("job"), about[text].get("vertex")) for text in about} == {
        "on the thread": ("clicks", "map"),
        "on the pool": ("clicks", "map"),
        "on a thread of the thread": ("clicks", "map"),
        "of nobody": (None, None),
    }


def test_json_lines(log: JobLogger) -> None:
    stream = to_stream(sl.JsonLogFormatter())
    log.warning("two\nlines of %s", "ü", job="clicks", job_id="c1", attempt=3, checkpoint=9)
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("it failed", vertex="map", subtask=0)
    first, second = map(json.loads, stream.getvalue().splitlines())
    time = first.pop("time")
    assert (len(time), time[10], time[-1]) == (24, "T", "Z")
    assert first == {
        "level": "WARNING",
        "logger": NAME,
        "message": "two\nlines of ü",
        "job": "clicks",
        "job_id": "c1",
        "attempt": 3,
        "checkpoint": 9,
    }
    assert (second["level"], second["vertex"], second["subtask"]) == ("ERROR", "map", 0)
    assert "ValueError: no" in second["exception"]


def test_json_lines_of_other_loggers_say_whose_thread_it_was(log: JobLogger) -> None:
    stream = to_stream(sl.JsonLogFormatter())

    def user_code() -> None:
        set_log_fields(job="clicks", vertex="map", subtask=2)
        logging.getLogger(NAME).warning("in user code")

    copy_context().run(user_code)
    logging.getLogger(NAME).warning("elsewhere")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["job"], first["vertex"], first["subtask"]) == ("clicks", "map", 2)
    assert set(second) == {"time", "level", "logger", "message"}


def test_what_is_not_json_is_shown_as_text(log: JobLogger) -> None:
    stream = to_stream(sl.JsonLogFormatter())
    log.warning("x", extra={"job": object(), "vertex": "v" * 5000})
    line = json.loads(stream.getvalue())
    assert line["job"].startswith("<object")
    assert len(line["vertex"]) == 1000


def test_a_filter_makes_fields_for_text_formats(log: JobLogger) -> None:
    stream = to_stream(logging.Formatter("[%(job)s %(vertex)s/%(subtask)s #%(attempt)s %(checkpoint)s] %(message)s"))
    logging.getLogger(NAME).handlers[0].addFilter(sl.JobLogFilter())
    log.warning("one", job="clicks", vertex="map", subtask=0, attempt=1)
    logging.getLogger(NAME).warning("two")
    assert stream.getvalue() == "[clicks map/0 #1 ] one\n[ / # ] two\n"
