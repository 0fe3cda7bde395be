"""Starts a job master."""

from __future__ import annotations

from snapline.graph.job_spec import JobSpec
from snapline.runtime.master.control_server import connection_limit
from snapline.runtime.master.job_page import open_page
from snapline.runtime.master.job_storage import open_storage
from snapline.runtime.master.job_traces import check_traces
from snapline.runtime.master.master_handle import MasterHandle
from snapline.runtime.master.master_thread import MasterThread
from snapline.runtime.master.program_exit import suspend_at_exit
from snapline.runtime.network.descriptors import require_descriptors
from snapline.runtime.scheduler.call_watch import CallWatch
from snapline.runtime.scheduler.system_threads import ThreadTimers
from snapline.runtime.slot.slot_provider import SlotProvider
from snapline.runtime.wire.credentials import check_encryption
from snapline.storage.journals.journal_store import JournalStore
from snapline.storage.objects.object_store import ObjectStore


def start_master(
    spec: JobSpec,
    provider: SlotProvider,
    *,
    objects: ObjectStore | None = None,
    journal: JournalStore | None = None,
) -> MasterHandle:
    """Start a job with slots of this provider, which is closed when the job ends or cannot start.

    Raises at once if there cannot be enough slots, a package or the snapshot to restore is missing, or the storage is
    not writable.
    `objects` and `journal` replace what the settings name.
    """
    try:
        check_encryption(spec.execution.encryption)
        check_traces(spec.monitoring)
        slots = spec.plan.slots
        require_descriptors(connection_limit(slots), f"the driver of a job with {slots} slots")
        provider.check(slots)
        opening = CallWatch(ThreadTimers(), f"job {spec.name}: opening its storage {spec.checkpoints.storage or ''}")
        try:
            storage = open_storage(spec, objects, journal)
        finally:
            opening.end()
        try:
            thread = MasterThread(spec, provider, storage)
            page = open_page(thread, storage.objects)
            try:
                thread.start()
            except BaseException:
                page.close()
                raise
        except BaseException:
            storage.close()
            raise
    except BaseException:
        provider.close()
        raise
    handle = MasterHandle(thread)
    suspend_at_exit(handle)
    return handle
