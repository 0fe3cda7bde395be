"""Links from Spark's own UI to the pages of jobs.

Spark shows the description of a job as HTML if it has no other links than to Spark's UI itself. So a handler there
sends the browser on to the page.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from html import escape
from typing import Any

from snapline.runtime.slot.slot_provider import SlotOrder

MAX_LINKS = 100
"""Links in the UI of an application; the oldest give way."""

_log = logging.getLogger(__name__)


class _Links:
    """The paths in the UI of one application, and where they lead. A process has one application at a time."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self._application = ""
        self._targets: OrderedDict[str, str] = OrderedDict()

    def of(self, application: str) -> OrderedDict[str, str]:
        if application != self._application:
            self._application, self._targets = application, OrderedDict()
        return self._targets


_links = _Links()


def describe_job(context: Any, order: SlotOrder) -> str:
    """The description of the Spark job that holds these slots: name, attempt, and the way to the page.

    Never raises: where Spark's UI is off or different, the page's address is shown as text.
    """
    what = f"Snapline job {escape(order.job_name)}, from attempt {order.attempt} on"
    if not order.page_url:
        return what
    path = f"/snapline/{order.job_id}"
    try:
        is_linked = _link(context, path, order.page_url)
    except Exception:
        _log.debug("Spark's UI has no link to the page of %s", order.job_name, exc_info=True)
        is_linked = False
    return f'{what}: <a href="{path}">page</a>' if is_linked else f"{what}: {escape(order.page_url)}"


def _link(context: Any, path: str, url: str) -> bool:
    """Make the UI send whoever asks for `path` on to `url`. Returns False if there is no UI."""
    found = context._jsc.sc().ui()
    if found.isEmpty():
        return False
    ui, jetty = found.get(), context._jvm.org.apache.spark.ui.JettyUtils
    with _links.guard:
        links = _links.of(context.applicationId)
        if links.get(path) == url:
            return True
        ui.detachHandler(path)
        # Versions of Spark differ in how many parameters with defaults follow.
        defaults = sorted(name for name in dir(jetty) if name.startswith("createRedirectHandler$default$"))
        ui.attachHandler(jetty.createRedirectHandler(path, url, *(getattr(jetty, name)() for name in defaults)))
        links[path] = url
        while len(links) > MAX_LINKS:
            ui.detachHandler(links.popitem(last=False)[0])
    return True
