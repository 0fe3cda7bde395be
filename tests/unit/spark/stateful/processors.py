"""Stateful processors as written for Spark, without Snapline."""

# mypy: ignore-errors
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import ArrayType, DateType, IntegerType, LongType, MapType, StringType, StructField, StructType


class RunningCount(StatefulProcessor):
    """Counts rows; the state is declared by Spark's types."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", StructType([StructField("n", LongType())]))

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        count = self._count.get()[0] if self._count.exists() else 0
        count += sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(user=key[0], n=count)

    def handleInitialState(self, key, initialState, timerValues) -> None:
        old = self._count.get()
        self._count.update(((old[0] if old else 0) + initialState.n,))


class ClearingCount(RunningCount):
    """Starts again at three rows."""

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in super().handleInputRows(key, rows, timerValues):
            if row.n >= 3:
                self._count.clear()
            yield row.__class__(user=row.user, n=row.n if self._count.exists() else -row.n)


class MinAndMax(StatefulProcessor):
    """Two columns in a value, which may be null."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._range = handle.getValueState("range", "low BIGINT, high BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        low, high = self._range.get() or (None, None)
        for row in rows:
            if row.n is not None:
                low = row.n if low is None else min(low, row.n)
                high = row.n if high is None else max(high, row.n)
        self._range.update((low, high))
        yield Row(user=key[0], n=high, m=low)


class TopTwo(StatefulProcessor):
    """The two greatest values, in a list that is replaced."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._top = handle.getListState("top", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        values = [n for (n,) in self._top.get()] + [row.n for row in rows if row.n is not None]
        top = sorted(values, reverse=True)[:2]
        if top:
            self._top.put([(n,) for n in top])
        for rank, n in enumerate(top):
            yield Row(user=key[0], n=n, m=rank)


class Basket(StatefulProcessor):
    """Collects words until the user pays: appends one by one and several at once, and clears."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._items = handle.getListState("items", "word STRING, n BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        rows = list(rows)
        self._items.appendValue((rows[0].word, rows[0].n))
        if rows[1:]:
            self._items.appendList([(row.word, row.n) for row in rows[1:]])
        if any(row.word == "pay" for row in rows):
            items = list(self._items.get())
            self._items.clear()
            yield Row(user=key[0], word=" ".join(word for word, _ in items), n=len(items))
        assert self._items.exists() == (not any(row.word == "pay" for row in rows))


class WordCount(StatefulProcessor):
    """Counts words in a map, forgets words that start with a minus, and emits the whole map."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._counts = handle.getMapState("counts", "word STRING", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for row in rows:
            if row.word.startswith("-"):
                self._counts.removeKey((row.word[1:],))
            elif self._counts.containsKey((row.word,)):
                self._counts.updateValue((row.word,), (self._counts.getValue((row.word,))[0] + 1,))
            else:
                assert self._counts.getValue((row.word,)) is None
                self._counts.updateValue((row.word,), (1,))
        pairs = sorted(self._counts.iterator())
        assert sorted(self._counts.keys()) == [word for word, _ in pairs]
        assert sorted(self._counts.values()) == sorted(count for _, count in pairs)
        yield Row(user=key[0], word=" ".join(f"{word}={n}" for (word,), (n,) in pairs), n=len(pairs))


class Distinct(StatefulProcessor):
    """Emits only new pairs, by a map with a key of two columns; `clear` forgets them all."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getMapState("seen", "word STRING, n BIGINT", "at BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for number, row in enumerate(rows):
            if row.word == "clear":
                self._seen.clear()
            elif not self._seen.containsKey((row.word, row.n)):
                self._seen.updateValue((row.word, row.n), (number,))
                yield Row(user=key[0], word=row.word, n=row.n)


class Session(StatefulProcessor):
    """A session ends ten seconds after its last row, in processing time: each row moves the timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self._rows = handle.getValueState("rows", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 10_000)
        self._rows.update(((self._rows.get() or (0,))[0] + len(list(rows)),))
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        count = self._rows.get()[0]
        self._rows.clear()
        yield Row(user=key[0], n=count, m=expiredTimerInfo.getExpiryTimeInMs())


class Downtime(StatefulProcessor):
    """Reports sensors silent for ten seconds of event time, repeatedly."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self._seen = handle.getValueState("seen", "at TIMESTAMP")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        # Times in rows have a zone, those in state have none.
        newest = max((row.ts.astimezone().replace(tzinfo=None) for row in rows), default=None)
        if newest is None:
            return
        if self._seen.exists():
            newest = max(newest, self._seen.get()[0])
        self._seen.update((newest,))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(int(newest.timestamp() * 1000) + 10_000)
        yield Row(user=key[0], n=0, m=timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        silent_ms = timerValues.getCurrentWatermarkInMs() - int(self._seen.get()[0].timestamp() * 1000)
        yield Row(user=key[0], n=silent_ms, m=expiredTimerInfo.getExpiryTimeInMs())
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 10_000)


class Alarm(StatefulProcessor):
    """A few timers per key; one that fires emits the rest, deletes one and registers itself again."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        for row in rows:
            self.handle.registerTimer(now_ms + row.n)
        yield Row(user=key[0], word=",".join(map(str, self.handle.listTimers())), n=now_ms)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        time_ms = expiredTimerInfo.getExpiryTimeInMs()
        before = list(self.handle.listTimers())
        self.handle.registerTimer(time_ms)  # fires now, and is gone then
        self.handle.deleteTimer(time_ms + 1)
        yield Row(user=key[0], word=",".join(map(str, before)), n=timerValues.getCurrentProcessingTimeInMs())


class Clock(StatefulProcessor):
    """Emits the times a processor sees."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        yield Row(user=key[0], n=timerValues.getCurrentProcessingTimeInMs(), m=timerValues.getCurrentWatermarkInMs())


class FirstOnly(StatefulProcessor):
    """Consumes only some rows, and returns a list instead of a generator, with columns in another order."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._first = handle.getValueState("first", "word STRING")

    def handleInputRows(self, key, rows, timerValues) -> list[Row]:
        if self._first.exists():
            return []
        first = next(rows)
        self._first.update((first.word,))
        return [Row(n=first.n, user=key[0], word=first.word)]


class Nested(StatefulProcessor):
    """Arrays, maps, structs and times in state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType(
            [
                StructField("numbers", ArrayType(IntegerType())),
                StructField("by_word", MapType(StringType(), LongType())),
                StructField("last", StructType([StructField("word", StringType()), StructField("n", LongType())])),
                StructField("day", DateType()),
            ]
        )
        self._state = handle.getValueState("state", schema)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        numbers, by_word, last, day = self._state.get() or ([], {}, None, datetime.date(2026, 1, 1))
        numbers, by_word = list(numbers), dict(by_word)
        for row in rows:
            numbers.append(row.n)
            by_word[row.word] = by_word.get(row.word, 0) + 1
            last = Row(word=row.word, n=row.n)
            day += datetime.timedelta(days=1)
        self._state.update((numbers, by_word, last, day))
        words = " ".join(f"{word}={n}" for word, n in sorted(by_word.items()))
        yield Row(user=key[0], word=f"{numbers} {words} {last.word} {last['n']} {day}", n=len(numbers))


class WithoutOld(RunningCount):
    """A newer version of a processor that used to have another state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        handle.deleteIfExists("old")
        super().init(handle)


class PandasCount(StatefulProcessor):
    """Counts in frames."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("state", "n BIGINT, total BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Any]:
        import pandas

        count, total = self._state.get() or (0, 0)
        for frame in rows:
            count += len(frame)
            total += frame["n"].sum()  # a number of numpy's
        self._state.update((count, total))
        yield pandas.DataFrame({"user": [key[0]], "n": [count], "m": [total]})

    def handleInitialState(self, key, initialState, timerValues) -> None:
        self._state.update((int(initialState["n"].sum()), 0))


class PandasSession(StatefulProcessor):
    """Sessions of event time in frames: one ends ten seconds after its last row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self._ends = handle.getListState("times", "ms BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Any]:
        import pandas

        for frame in rows:
            for ms in frame["ms"].tolist():
                self._ends.appendValue((ms,))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        times = [ms for (ms,) in self._ends.get()]
        if times:
            self.handle.registerTimer(max(times) + 10_000)
        yield pandas.DataFrame()

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Any]:
        import pandas

        times = [ms for (ms,) in self._ends.get()]
        self._ends.clear()
        yield pandas.DataFrame({"user": key[0], "n": [len(times)], "m": [max(times)]})
