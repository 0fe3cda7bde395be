"""Puts a job on the web server of its program."""

from __future__ import annotations

from importlib.util import find_spec

from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.address_files import AddressFiles
from snapline.runtime.master.master_thread import MasterThread
from snapline.runtime.master.thread_job import ThreadJob
from snapline.storage.objects.object_store import ObjectStore

_log = JobLogger(__name__)


class JobPage:
    """The place of a job on a server. Ended jobs stay there as long as the program runs."""

    def __init__(self, thread: MasterThread) -> None:
        self._job = ThreadJob(thread)
        self._address: AddressFiles | None = None

    def publish(self, address: AddressFiles) -> None:
        """Write down where the job is, for as long as it runs."""
        self._address = address
        address.write()

    def close(self) -> None:
        """Take the job off the server: it was not started."""
        from snapline.web.web_server import withdraw

        withdraw(self._job)
        if self._address is not None:
            self._address.remove()


def open_page(thread: MasterThread, objects: ObjectStore) -> JobPage:
    """Serve the job if its settings say so, and write down where, also in `objects`.

    Without the packages for it, the job runs without a page.
    """
    page = JobPage(thread)
    monitoring = thread.spec.monitoring
    if not monitoring.enabled:
        return page
    missing = [package for package in ("starlette", "uvicorn", "prometheus_client") if find_spec(package) is None]
    if missing:
        _log.warning(
            "job %s has no page, because %s is not installed: pip install 'snapline[web]', or say "
            "Monitoring(enabled=False)",
            thread.spec.name,
            " and ".join(missing),
            job=thread.spec.name,
            job_id=thread.spec.job_id,
        )
        return page
    from snapline.web.web_server import serve

    served = serve(page._job, monitoring)
    if not served.url:
        return page
    thread.url = served.url
    where = "" if served.token_file is None else f", and the token for it in {served.token_file}"
    name = thread.spec.name
    _log.info("job %s: its page is at %s%s", name, served.url, where, job=name, job_id=thread.spec.job_id)
    address = AddressFiles(thread.spec, objects, served.url, served.token_file)
    page.publish(address)
    thread.ended.add_done_callback(lambda _: address.remove())
    return page
