"""The handle of a running job: what every launcher returns, and what its errors carry."""

from __future__ import annotations

import inspect
import pickle
import traceback
from typing import Any

import pytest

import snapline as sl
from snapline.api.job_handle import JobFailedError, JobHandle
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing import ThreadCluster


def test_the_handle_of_the_master_has_every_member_with_its_signature() -> None:
    members = {name: member for name, member in vars(JobHandle).items() if not name.startswith("_")}
    assert {"wait", "stop", "checkpoints", "attempt"} <= members.keys()
    for name, member in members.items():
        own = inspect.getattr_static(MasterHandle, name)
        if isinstance(member, property):
            assert isinstance(own, property), name
        else:
            assert inspect.signature(own).parameters == inspect.signature(member).parameters, name


def test_a_failure_carries_the_output_of_its_process() -> None:
    error = pickle.loads(pickle.dumps(JobFailedError("broken", trace="Traceback ...", log="last words")))
    assert (str(error), error.trace, error.log) == ("broken", "Traceback ...", "last words")
    assert "".join(traceback.format_exception(error)).splitlines()[-2:] == [
        "snapline.api.job_handle.JobFailedError: broken",
        "Traceback ...",
    ]
    assert (JobFailedError("broken").trace, JobFailedError("broken").log) == ("", "")
    assert not hasattr(JobFailedError("broken"), "__notes__")


def test_a_handle_is_shown_in_one_line() -> None:
    job = sl.Job("My job")
    stream = job.source(sl.sources.Rate(rows=10), uid="rows")
    stream.map_batches(broken, uid="broken", schema=stream.schema).sink(sl.sinks.Print(), uid="out")
    handle = job.start(ThreadCluster())
    with pytest.raises(JobFailedError):
        handle.wait("30s")
    assert repr(handle).startswith(f"<JobHandle 'My job' (id {handle.id}): FAILED, attempt 1, last failure: rows/0#1: ")
    assert "\n" not in repr(handle)


def broken(batch: Any) -> Any:
    raise KeyError("price\nsecond line")
