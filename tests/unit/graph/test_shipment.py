"""Jobs on their way to the processes that run them."""

from __future__ import annotations

import pickle
import threading

import pytest

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.graph.planner import make_spec
from snapline.graph.shipment import unpack


def job(function: object = lambda batch: batch) -> sl.Job:
    made = sl.Job("shipped")
    rows = sl.sources.Rate(rows=1)
    made.source(rows, uid="rows").map_batches(function, schema=rows.schema, uid="own").sink(  # type: ignore[arg-type]
        sl.sinks.Files("out"), uid="out"
    )
    return made


def test_every_subtask_gets_operators_of_its_own() -> None:
    shipment = unpack(make_spec(job()).shipment)
    first, second = shipment.make_operators("rows"), shipment.make_operators("rows")
    assert [type(operator) for operator in first] == [type(operator) for operator in second]
    assert not any(one is other for one, other in zip(first, second, strict=True))


def test_another_version_of_snapline_is_told_of() -> None:
    _, packed = pickle.loads(make_spec(job()).shipment)
    with pytest.raises(UserCodeError, match=r"the driver runs Snapline 0\.0\.9, the executors run"):
        unpack(pickle.dumps(("0.0.9", b"what nobody can read" + packed)))


def test_what_cannot_be_pickled_is_named() -> None:
    lock = threading.Lock()

    def locked(batch: object) -> object:
        with lock:
            return batch

    with pytest.raises(ConfigurationError, match=r"operator 'own' .* cannot be pickled .* lock"):
        make_spec(job(locked))
