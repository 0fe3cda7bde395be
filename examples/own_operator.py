"""Write an operator with keyed state: emit each user once, when the total of their values passes a limit.

Run it with `python examples/own_operator.py`. It needs no Spark: the job runs in threads of this process.
"""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pyarrow.compute as pc

import snapline as sl
from snapline.state.value_states import ReducingState
from snapline.testing import ThreadCluster

PASSED = pa.schema([("user", pa.string())])


class Passed(sl.Operator):
    """Emits each user once, when the total of their values reaches `limit`.

    Batch boundaries change on the way, so the output must not depend on them.
    """

    _totals: ReducingState

    def __init__(self, limit: int) -> None:
        self._limit = limit  # pickled with the job; open connections and files in `open`

    def open(self, context: sl.OperatorContext) -> None:
        super().open(context)
        keyed = context.states.keyed
        assert keyed is not None, "use it after key_by()"
        self._keyed = keyed
        self._totals = keyed.reducing_state("totals", pa.int64(), "sum")

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:  # noqa: ARG002  # there is only one input
        users = batch.column("user")
        keys = self._keyed.keys([users])  # hashed and looked up once for the three calls below
        before = pc.fill_null(self._totals.take(keys), 0)  # null for new users
        self._totals.add_all(keys, batch.column("value"))
        after = self._totals.take(keys)
        has_passed = pc.and_(pc.less(before, self._limit), pc.greater_equal(after, self._limit))
        passed = users.filter(has_passed).unique()
        if len(passed):
            self.context.emit(pa.RecordBatch.from_arrays([passed], schema=PASSED))


def make_job(directory: str) -> sl.Job:
    job = sl.Job("passed", parallelism=2, checkpoints=sl.Checkpoints(interval="200ms", storage=f"{directory}/chk"))
    (
        job.source(sl.sources.Rate(rows=20_000, users=50), uid="values")
        .key_by("user")
        .apply(Passed(limit=10_000), uid="passed", schema=PASSED)
        .sink(sl.sinks.Files(f"{directory}/out", format="jsonl"), uid="out")
    )
    return job


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(make_job(directory).run(ThreadCluster()))
        found = sl.sinks.read_files(f"{directory}/out")["user"].to_pylist()
        print(f"{len(found)} users have passed the limit, each reported once: {len(set(found)) == len(found)}")
