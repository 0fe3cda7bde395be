"""The handle of a running job: what every launcher returns, and what its errors carry."""

from __future__ import annotations

import inspect
import pickle

from snapline.api.job_handle import JobFailedError, JobHandle
from snapline.runtime.master.master_handle import MasterHandle


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
    error = pickle.loads(pickle.dumps(JobFailedError("broken", log="last words")))
    assert (str(error), error.log) == ("broken", "last words")
    assert JobFailedError("broken").log == ""
