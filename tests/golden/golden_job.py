"""The job whose snapshots are in `tests/golden/job-v1`: every kind of state, and output that proves it was restored.

It uses the public API only, so older versions of Snapline run it too. `make_job.py` wrote the snapshots with one of
them, and `tests/integration/test_golden_job.py` restores them. The output does not depend on the order in which rows
of different subtasks meet, so a job that was restored must write exactly what an uninterrupted one writes.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.golden.golden_holds import HERE, Fillable, Held, Holds, Uncommitted, pass_hold, reached

import snapline as sl

OUTPUT = HERE / "output"
MAX_PARALLELISM = 16
EVENTS = 160
USERS = 12
RULES = 6
TICKS = 10
LATE_TICK = 6
SPLITS = 4
BLOCK_ROWS = 5

EVENT = pa.schema(
    [
        ("id", pa.int64()),
        ("user", pa.string()),
        ("item", pa.string()),
        ("value", pa.int64()),
        ("time", pa.timestamp("ms", "UTC")),
    ]
)
USER = pa.schema([("user", pa.string()), ("name", pa.string()), ("since", pa.timestamp("ms", "UTC"))])
TICK = pa.schema([("name", pa.string()), ("time", pa.timestamp("ms", "UTC"))])
LINE = pa.schema([("what", pa.string()), ("row", pa.string())])
NUMBERED = pa.schema([("id", pa.int64()), ("user", pa.string()), ("number", pa.int64())])
ITEM = pa.schema([("item", pa.string()), ("number", pa.int64())])
SESSION = pa.schema([("user", pa.string()), ("ids", pa.list_(pa.int64()))])
LEDGER = pa.schema([("what", pa.string()), ("n", pa.int64())])

CORE = frozenset({"aggregate", "join", "ledger", "rules"})
MORE = CORE | {"periods", "questions", "tumbling"}
"""Parts of smaller jobs, for snapshots that need not hold everything."""

HALFWAY = {"events": [[40], [40]], "users": [[5]], "rules": [[3]], "ticks": [[LATE_TICK]]}
"""Where the readers of the whole job wait: `Holds.rows`."""

_START = datetime(2024, 2, 29, tzinfo=UTC)
_STEP = timedelta(milliseconds=250)
_PERIOD_MS = 5_000
_END_MS = 4_102_444_800_000
"""A timer for this time fires at the end of the input."""
_FOREVER = sl.Ttl("30000d")


# Sources.


def event_rows(start: int, count: int) -> pa.RecordBatch:
    ids = range(start, start + count)
    rows = [
        {
            "id": id,
            "user": f"user-{(id * id + id // 7) % 5}",
            "item": f"item-{id % 3}",
            "value": id * 31 % 17,
            "time": _START + id * _STEP,
        }
        for id in ids
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENT)


def tick_rows(start: int, count: int) -> pa.RecordBatch:
    """One row per second; `LATE_TICK` is late."""
    rows = [
        {"name": "tick", "time": _START + timedelta(seconds=1 if tick == LATE_TICK else tick)}
        for tick in range(start, start + count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=TICK)


class Users(sl.Source):
    """Rows of users in splits of two, which the driver hands out one by one."""

    @property
    def schema(self) -> pa.Schema:
        return USER

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Any]:
        del parallelism
        return [{"first": first, "end": first + 2} for first in range(0, USERS, 2)]

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        del context
        return _UsersReader()


class _UsersReader(sl.SourceReader):
    def __init__(self) -> None:
        self._splits: list[tuple[Any, int]] = []

    def add_split(self, split: Any, position: Any) -> None:
        self._splits.append((split, split["first"] if position is None else position))

    def read(self) -> pa.RecordBatch | sl.Wait | None:
        if not self._splits:
            return None
        split, id = self._splits.pop(0)
        if id + 1 < split["end"]:
            self._splits.insert(0, (split, id + 1))
        row = {"user": f"user-{id // 3}", "name": f"name-{id}", "since": _START + id * timedelta(seconds=1)}
        return pa.RecordBatch.from_pylist([row], schema=USER)

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Any, Any]]:
        return self._splits


# Own operators, with keyed state and with all kinds of operator state.


class Numbering(Fillable):
    """Numbers the rows of each user."""

    def open(self, context: sl.OperatorContext) -> None:
        super().open(context)
        keyed = context.states.keyed
        assert keyed is not None
        self._keyed = keyed
        self._counts = keyed.reducing_state("counts", pa.int64(), "sum")

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        users = batch.column("user")
        keys = self._keyed.keys([users])
        before = self._counts.take(keys).to_pylist()
        self._counts.add_all(keys, [1] * batch.num_rows)
        seen: Counter[str] = Counter()
        numbers: list[int] = []
        for user, count in zip(users.to_pylist(), before, strict=True):
            seen[user] += 1
            numbers.append((count or 0) + seen[user])
        self.context.emit(pa.RecordBatch.from_arrays([batch.column("id"), users, pa.array(numbers)], schema=NUMBERED))
        self.count(batch)


class Ledger(Fillable):
    """Keeps ids in list state, a row count in union list state and a sum in raw state; emits all at the end.

    After a restore the first subtask continues the row counts of all subtasks.
    """

    def open(self, context: sl.OperatorContext) -> None:
        super().open(context)
        states = context.states.operator
        self._ids = states.list_state("ids", pa.int64())
        self._counts = states.union_list_state("counts", pa.struct([("subtask", pa.int64()), ("n", pa.int64())]))
        self._sums = states.raw_state("sums")
        self._n = sum(element["n"] for element in self._counts) if context.subtask == 0 else 0
        self._sum = sum(int.from_bytes(element) for element in self._sums.read())

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self._ids.extend(batch.column("id").to_pylist())
        self._n += batch.num_rows
        self._sum += pc.sum(batch.column("value")).as_py()
        self.count(batch)

    def snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        self._counts.set([{"subtask": self.context.subtask, "n": self._n}])
        self._sums.write(self._sum.to_bytes(8))

    def finish(self) -> None:
        rows = [{"what": "id", "n": id} for id in self._ids]
        rows += [{"what": "rows", "n": self._n}, {"what": "sum", "n": self._sum}]
        self.context.emit(pa.RecordBatch.from_pylist(rows, schema=LEDGER))


# Functions.


class Periods(sl.ProcessFunction):
    """Emits what each user did in a period once event time has passed it, and a summary at the end."""

    SCHEMA = pa.schema(
        [
            ("user", pa.string()),
            ("until", pa.int64()),
            ("value", pa.int64()),
            ("ids", pa.list_(pa.int64())),
            ("periods", pa.int64()),
            ("price", pa.decimal128(12, 2)),
        ]
    )
    LARGE = pa.schema([("id", pa.int64()), ("value", pa.int64())])

    def open(self, context: sl.ProcessContext) -> None:
        closed = pa.struct([("periods", pa.int64()), ("price", pa.decimal128(12, 2))])
        self._closed = context.value_state("closed", closed)
        self._values = context.map_state("values", pa.int64(), pa.int64())
        self._ids = context.list_state("ids", pa.struct([("id", pa.int64()), ("time", pa.timestamp("ms", "UTC"))]))
        self._largest = context.reducing_state("largest", pa.int64(), "max")
        self._rows = context.value_state("rows", pa.int64(), ttl=_FOREVER)

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        time_ms = context.timestamp_ms
        assert time_ms is not None
        until = (time_ms // _PERIOD_MS + 1) * _PERIOD_MS
        context.set_event_timer(until)
        rows = self._rows.get() or 0
        self._rows.set(rows + 1)
        if rows == 0:
            context.set_event_timer(_END_MS)
            context.set_processing_timer(_END_MS)
        self._values.put(until, self._values.get(until, 0) + row["value"])
        self._ids.add({"id": row["id"], "time": row["time"]})
        self._largest.add(row["value"])
        if row["value"] == 16:
            context.emit_to("large", {"id": row["id"], "value": row["value"]})

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        closed = self._closed.get() or {"periods": 0, "price": Decimal(0)}
        if time_ms == _END_MS:
            value, periods = self._largest.get(), 1000 * self._rows.get() + closed["periods"]
        else:
            value, periods = self._values.get(time_ms), closed["periods"] + 1
            self._values.remove(time_ms)
        price = closed["price"] + Decimal(value) / 4
        self._closed.set({"periods": periods, "price": price})
        until = datetime.fromtimestamp(time_ms / 1000, UTC)
        past = [element for element in self._ids.get() if element["time"] < until]
        self._ids.set(element for element in self._ids.get() if element["time"] >= until)
        ids = sorted(element["id"] for element in past)
        context.emit(
            {"user": context.key, "until": time_ms, "value": value, "ids": ids, "periods": periods, "price": price}
        )


class Rules(sl.CoProcessFunction):
    """Emits at the end the sum of each user's values, multiplied by the broadcast rules."""

    SCHEMA = pa.schema([("user", pa.string()), ("value", pa.int64()), ("rules", pa.list_(pa.int64()))])

    def open(self, context: sl.ProcessContext) -> None:
        self._sum = context.reducing_state("sum", pa.int64(), "sum")
        self._rules = context.broadcast_state("rules", pa.int64(), pa.int64())

    def process_first(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        if self._sum.get() is None:
            context.set_event_timer(_END_MS)
        self._sum.add(row["value"])

    def process_second(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        del context
        self._rules.put(row["value"], row["value"] * 10)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        del time_ms
        rules = dict(self._rules.items())
        value = self._sum.get() * sum(rules.values())
        context.emit({"user": context.key, "value": value, "rules": sorted(rules)})


class Question(sl.AsyncFunction):
    """Doubles the value. Rows without an answer are part of the state."""

    SCHEMA = pa.schema([("id", pa.int64()), ("twice", pa.int64())])

    def __init__(self, unanswered_from: int | None) -> None:
        self._unanswered_from = unanswered_from

    async def ask(self, row: dict[str, Any]) -> dict[str, Any]:
        if self._unanswered_from is not None and row["id"] >= self._unanswered_from:
            await asyncio.Event().wait()
        return {"id": row["id"], "twice": 2 * row["value"]}


class Secret(sl.MasterHook):
    """Keeps a few bytes in every checkpoint."""

    name = "secret"

    def __init__(self) -> None:
        self.restored: list[bytes | None] = []

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        del checkpoint_id
        return b"open sesame"

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        del checkpoint_id
        self.restored.append(state)


def _number_items(count: int | None, row: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    number = (count or 0) + 1
    return number, {"item": row["item"], "number": number}


def _session(key: Any, window: Any, table: pa.Table) -> dict[str, Any]:
    del window
    return {"user": key, "ids": sorted(table["id"].to_pylist())}


def _line(what: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"what": what, "row": json.dumps(row, default=str, sort_keys=True)}


# The job.


def make_job(
    name: str,
    checkpoints: sl.Checkpoints,
    *,
    parts: Collection[str] | None = None,
    id: str | None = None,
    parallelism: int = 2,
    execution: sl.Execution | None = None,
    holds: Holds | None = None,
    hook: sl.MasterHook | None = None,
) -> sl.Job:
    """The job with these parts, or with all. It writes to `OUTPUT`, below the working directory."""
    holds = Holds() if holds is None else holds
    job = sl.Job(
        name,
        id=id,
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        checkpoints=checkpoints,
        execution=execution,
        restart=sl.NoRestart(),
        hooks=[Secret() if hook is None else hook],
    )

    def held(uid: str, source: sl.Source) -> sl.Source:
        return Held(source, holds.rows[uid]) if uid in holds.rows else source

    def committed(sink: sl.Sink) -> sl.Sink:
        return Uncommitted(sink) if holds.commits else sink

    generated = sl.sources.Generate(event_rows, EVENTS, schema=EVENT, splits=SPLITS, batch_rows=BLOCK_ROWS)
    events = job.source(held("events", generated), uid="events", watermarks=sl.Watermarks("time"))
    by_user, by_item = events.key_by("user"), events.key_by("item")

    def users() -> sl.Stream:
        return job.source(held("users", Users()), uid="users", parallelism=1, watermarks=sl.Watermarks("since"))

    def rules() -> sl.Stream:
        numbers = sl.sources.Sequence(0, RULES, splits=2, batch_rows=1)
        return job.source(held("rules", numbers), uid="rules", parallelism=1, watermarks=sl.Watermarks("value"))

    def late() -> sl.Stream:
        rows = sl.sources.Generate(tick_rows, TICKS, schema=TICK, splits=1, batch_rows=1)
        ticks = job.source(held("ticks", rows), uid="ticks", parallelism=1, watermarks=sl.Watermarks("time"))
        windows = ticks.key_by("name").window(sl.Tumbling("2s")).late_output("late")
        counted = windows.aggregate(n=sl.count(), uid="ticking", parallelism=1)
        return counted.map(partial(_line, "ticks"), schema=LINE).union(
            counted.side_output("late").map(partial(_line, "late"), schema=LINE)
        )

    def ones() -> sl.KeyedStream:
        return events.filter(pc.field("item") == "item-1").key_by("user")

    def twos() -> sl.KeyedStream:
        return events.filter(pc.field("item") == "item-2").select("id", "user", "time").key_by("user")

    def periods() -> sl.Stream:
        side_outputs = {"large": Periods.LARGE}
        stream = by_user.process(Periods(), schema=Periods.SCHEMA, side_outputs=side_outputs, uid="periods")
        return stream.map(partial(_line, "periods"), schema=LINE).union(
            stream.side_output("large").map(partial(_line, "large"), schema=LINE)
        )

    makers: dict[str, Callable[[], sl.Stream]] = {
        "periods": periods,
        "aggregate": lambda: by_user.aggregate(n=sl.count(), mean=sl.mean("value"), uid="aggregate"),
        "tumbling": lambda: by_user.window(sl.Tumbling("5s")).aggregate(total=sl.sum("value"), uid="tumbling"),
        "rules": lambda: by_user.connect(rules().broadcast()).process(Rules(), schema=Rules.SCHEMA, uid="apply-rules"),
        "join": lambda: ones().join(users().key_by("user"), how="left", uid="join").select("id", "name", "change"),
        "questions": lambda: events.filter(pc.field("value") == 3).async_map(
            Question(holds.questions), schema=Question.SCHEMA, ordered=False, timeout="10min", uid="questions"
        ),
        "ledger": lambda: events.rebalance().apply(
            Ledger(holds.full.get("ledger")), uid="ledger", schema=LEDGER, has_state=True
        ),
        "sliding": lambda: by_item.window(sl.Sliding("8s", every="4s")).aggregate(
            n=sl.count(), users=sl.count_distinct("user"), uid="sliding"
        ),
        "session": lambda: by_user.window(sl.Session("1s")).process(_session, schema=SESSION, uid="session"),
        "interval-join": lambda: (
            ones()
            .interval_join(twos(), lower="-3s", upper="2s", how="left", uid="interval-join")
            .select("id", "id_right")
        ),
        "window-join": lambda: (
            ones().window_join(twos(), sl.Tumbling("7s"), how="left", uid="window-join").select("id", "id_right")
        ),
        "items": lambda: by_item.map_with_state(_number_items, state=int, schema=ITEM, uid="items"),
        "first": lambda: events.key_by("user", "item").deduplicate(uid="first").select("user", "item"),
        "late": late,
        "top": lambda: by_user.top_n(2, by=["value", "id"], uid="top").select("user", "id", "rank"),
    }
    streams = {what: make() for what, make in makers.items() if parts is None or what in parts}
    first, *others = [
        stream if stream.schema == LINE else stream.map(partial(_line, what), schema=LINE)
        for what, stream in streams.items()
    ]
    first.union(*others).sink(committed(sl.sinks.Files(OUTPUT / "lines")), uid="lines")
    numbered = by_user.apply(Numbering(holds.full.get("numbering")), uid="numbering", schema=NUMBERED)
    numbered.sink(committed(sl.sinks.Files(OUTPUT / "numbered", format="jsonl")), uid="numbered")
    return job


def run_to_the_end(where: Any) -> None:
    """Run the whole job uninterrupted.

    A checkpoint halfway ensures that the watermark has overtaken the late row before that is read.
    """
    holds = Holds(rows=HALFWAY)
    handle = make_job("whole", sl.Checkpoints(storage=HERE / "checkpoints"), holds=holds).start(where)
    reached(holds, 0)
    handle.checkpoint(timeout="60s")
    pass_hold(0)
    assert handle.wait("60s") is sl.JobStatus.FINISHED
