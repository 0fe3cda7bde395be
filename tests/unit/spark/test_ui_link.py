"""Links from Spark's UI, on a stub of it; `tests/spark/test_spark_ui.py` follows a real one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from snapline.config import Encryption
from snapline.runtime.slot.slot_provider import SlotOrder
from snapline.runtime.wire.credentials import Credentials
from snapline.spark import ui_link
from snapline.spark.ui_link import MAX_LINKS, describe_job

ORDER = SlotOrder(
    "clicks", "a <b> & c", 1, 2, "host", 1, Credentials(b"", Encryption.MAC), b"", 1000, 5000, None,
    attempt=3, page_url="http://127.0.0.1:4300/#/jobs/1",
)  # fmt: skip


class Jetty:
    """Spark's `JettyUtils`: a parameter more than older versions have."""

    def createRedirectHandler(self, path: str, url: str, *defaults: Any) -> tuple[str, str]:
        assert defaults == (3, 4)
        return path, url


for number in (3, 4):
    setattr(Jetty, f"createRedirectHandler$default${number}", lambda self, number=number: number)


class Ui:
    def __init__(self) -> None:
        self.handlers: dict[str, str] = {}
        self.attached = 0

    def attachHandler(self, handler: tuple[str, str]) -> None:
        self.handlers.update([handler])
        self.attached += 1

    def detachHandler(self, path: str) -> None:
        self.handlers.pop(path, None)


def make_context(ui: Ui | None, *, application: str = "app-1", jetty: object = None) -> Any:
    option = SimpleNamespace(isEmpty=lambda: ui is None, get=lambda: ui)
    packages = SimpleNamespace(ui=SimpleNamespace(JettyUtils=jetty or Jetty()))
    return SimpleNamespace(
        applicationId=application,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(ui=lambda: option)),
        _jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=packages))),
    )


@pytest.fixture(autouse=True)
def _no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui_link, "_links", ui_link._Links())


def test_the_description_links_to_a_path_that_leads_to_the_page() -> None:
    ui = Ui()
    assert describe_job(make_context(ui), ORDER) == (
        'Snapline job a &lt;b&gt; &amp; c, from attempt 3 on: <a href="/snapline/clicks">page</a>'
    )
    assert ui.handlers == {"/snapline/clicks": "http://127.0.0.1:4300/#/jobs/1"}


def test_a_restart_needs_no_other_handler_but_a_moved_page_does() -> None:
    ui = Ui()
    context = make_context(ui)
    describe_job(context, ORDER)
    describe_job(context, replace(ORDER, attempt=4))
    assert ui.attached == 1
    describe_job(context, replace(ORDER, page_url="http://127.0.0.1:4301/"))
    assert ui.handlers == {"/snapline/clicks": "http://127.0.0.1:4301/"}
    assert ui.attached == 2


def test_another_application_has_a_ui_of_its_own() -> None:
    first, second = Ui(), Ui()
    describe_job(make_context(first), ORDER)
    describe_job(make_context(second, application="app-2"), ORDER)
    assert second.handlers == first.handlers


def test_the_oldest_links_give_way() -> None:
    ui = Ui()
    context = make_context(ui)
    for number in range(MAX_LINKS + 5):
        describe_job(context, replace(ORDER, job_id=f"job-{number}"))
    assert len(ui.handlers) == MAX_LINKS
    assert "/snapline/job-4" not in ui.handlers
    assert "/snapline/job-5" in ui.handlers


@pytest.mark.parametrize(
    "context",
    [make_context(None), make_context(Ui(), jetty=object()), object()],
    ids=["no UI", "another UI", "no context"],
)
def test_without_a_ui_the_address_is_text(context: Any) -> None:
    assert describe_job(context, ORDER) == (
        "Snapline job a &lt;b&gt; &amp; c, from attempt 3 on: http://127.0.0.1:4300/#/jobs/1"
    )


def test_without_a_page_there_is_no_link() -> None:
    ui = Ui()
    assert describe_job(make_context(ui), replace(ORDER, page_url="")) == (
        "Snapline job a &lt;b&gt; &amp; c, from attempt 3 on"
    )
    assert ui.handlers == {}
