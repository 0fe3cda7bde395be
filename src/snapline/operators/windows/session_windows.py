"""Session windows, which grow with their rows and merge when they meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.windows.window_operator import WindowOperator, WindowSettings
from snapline.operators.windows.window_results import Results
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.timers import DueTimers

_SESSION = pa.struct([pa.field("start", pa.int64()), pa.field("end", pa.int64()), pa.field("has_fired", pa.bool_())])


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Sessions: the row of each one's key, its name in state, its bounds, and whether it has fired."""

    owners: Ints
    names: Ints
    starts: Ints
    ends: Ints
    have_fired: Bools

    @classmethod
    def of(cls, owners: Ints, names: Ints, structs: pa.Array) -> _Sessions:
        starts, ends, have_fired = structs.flatten()
        return cls(owners, names, starts.to_numpy(), ends.to_numpy(), have_fired.to_numpy(zero_copy_only=False))

    def take(self, rows: Ints) -> _Sessions:
        return _Sessions(self.owners[rows], self.names[rows], self.starts[rows], self.ends[rows], self.have_fired[rows])

    def structs(self, have_fired: Bools) -> pa.Array:
        arrays = [pa.array(self.starts), pa.array(self.ends), pa.array(have_fired)]
        return pa.StructArray.from_arrays(arrays, fields=list(_SESSION))


class SessionWindows(WindowOperator):
    """Stores the sessions of each key in a map by a permanent name: the start the session had when it was created.

    The name lies within the session, so no other session of the key can have it. A session has one timer, which checks
    the end the session has by then; timers of merged sessions do nothing.
    """

    def __init__(self, settings: WindowSettings, accumulators: Accumulators, results: Results, gap_ms: int) -> None:
        super().__init__(settings, accumulators, results)
        self._gap_ms = gap_ms

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._sessions = self._keyed.map_state("windows/sessions", pa.int64(), _SESSION)

    def _take_in(self, batch: pa.RecordBatch) -> None:
        times = self._times(batch)
        is_late = times + self._gap_ms - 1 + self._settings.lateness_ms <= self._watermark_ms
        if is_late.any():
            self._late(batch, is_late)
            rows = np.flatnonzero(~is_late)
            batch, times = batch.take(pa.array(rows)), times[rows]
        if not batch.num_rows:
            return
        columns = self._key_columns(batch)
        keys = self._keyed.keys(columns)
        last_rows, owners = self._keyed.distinct(keys)
        distinct = keys.take(last_rows)
        order, first, began = _runs(owners, times, self._gap_ms)
        run_of_row = np.empty(len(times), dtype=np.int64)
        run_of_row[order] = np.cumsum(began) - 1
        ends_of = np.append(first[1:], len(order)) - 1
        runs = _Sessions(
            owners[order[first]],
            times[order[first]],
            times[order[first]],
            times[order[ends_of]] + self._gap_ms,
            np.zeros(len(first), dtype=np.bool_),
        )
        grown, target_of_run, is_new = self._grow(distinct, runs)
        namespaces = pa.array(grown.names[target_of_run[run_of_row]])
        self._accumulators.add(keys, batch, namespaces)
        self._expect(distinct, [column.take(pa.array(last_rows)) for column in columns], grown, is_new)
        self._note_changed(keys, columns, namespaces)

    def _grow(self, keys: Rows, runs: _Sessions) -> tuple[_Sessions, Ints, Bools]:
        """Merge runs of rows with the sessions of their keys.

        Returns the sessions that got rows, for each run the number of its session, and which sessions are new.
        """
        key_rows, names_in_state, found = self._sessions.entries(keys)
        known = _Sessions.of(key_rows, names_in_state.to_numpy(), found)
        count = len(known.owners)
        owners = np.concatenate([known.owners, runs.owners])
        starts, ends = np.concatenate([known.starts, runs.starts]), np.concatenate([known.ends, runs.ends])
        is_run = np.arange(len(owners)) >= count
        order = np.lexsort((is_run, starts, owners))
        began = _began(owners[order], starts[order], ends[order])
        numbers = np.cumsum(began) - 1
        firsts = np.flatnonzero(began)
        number_of = np.empty(len(owners), dtype=np.int64)
        number_of[order] = numbers
        # The name is that of the first merged session that existed before, if any.
        names = starts[order[firsts]].copy()
        is_new = np.ones(len(firsts), dtype=np.bool_)
        have_fired = np.zeros(len(firsts), dtype=np.bool_)
        old = order[~is_run[order]][::-1]
        names[number_of[old]] = known.names[old]
        is_new[number_of[old]] = False
        have_fired[number_of[old]] = known.have_fired[old]
        together = _Sessions(
            owners[order[firsts]], names, starts[order[firsts]], np.maximum.reduceat(ends[order], firsts), have_fired
        )
        old = old[::-1]
        absorbed = old[known.names[old] != names[number_of[old]]]
        if absorbed.size:
            of_keys, sources = keys.take(known.owners[absorbed]), pa.array(known.names[absorbed])
            self._accumulators.move(of_keys, sources, pa.array(names[number_of[absorbed]]))
            self._sessions.put_all(of_keys, sources, pa.nulls(len(absorbed), _SESSION))
        touched = np.unique(number_of[count:])
        return together.take(touched), np.searchsorted(touched, number_of[count:]), is_new[touched]

    def _expect(self, keys: Rows, columns: list[pa.Array], grown: _Sessions, is_new: Bools) -> None:
        """Store grown sessions, set timers, and emit sessions that were complete before they got rows."""
        is_complete = grown.ends - 1 <= self._watermark_ms
        owners = keys.take(grown.owners)
        self._sessions.put_all(owners, pa.array(grown.names), grown.structs(is_complete))
        lacks_timer = is_new | grown.have_fired | is_complete
        rows = np.flatnonzero(lacks_timer)
        if rows.size:
            times = grown.ends - 1 + np.where(is_complete, self._settings.lateness_ms, 0)
            self._timers.register_all(
                self._domain, owners.take(rows), pa.array(times[rows]), pa.array(grown.names[rows])
            )
        rows = np.flatnonzero(is_complete)
        if rows.size:
            named = [column.take(pa.array(grown.owners[rows])) for column in columns]
            self._fire(owners.take(rows), named, grown.take(rows))

    def _fire(self, keys: Rows, columns: list[pa.Array], sessions: _Sessions) -> None:
        taken = self._accumulators.take(keys, pa.array(sessions.names))
        self._results.emit(self.context, columns, sessions.starts, sessions.ends, taken)

    def _on_due(self, due: DueTimers) -> None:
        assert due.namespaces is not None
        once = self._distinct(due.rows, due.namespaces.to_numpy())
        keys, sessions = self._present(due.rows, due.namespaces, once)
        last = sessions.ends - 1
        waits = np.flatnonzero(last > self._watermark_ms)
        if waits.size:
            self._timers.register_all(
                self._domain, keys.take(waits), pa.array(last[waits]), pa.array(sessions.names[waits])
            )
        fires = np.flatnonzero((last <= self._watermark_ms) & ~sessions.have_fired)
        if fires.size:
            firing, owners = sessions.take(fires), keys.take(fires)
            columns = [column.take(pa.array(firing.owners)) for column in self._columns_of(due.keys)]
            self._fire(owners, columns, firing)
            if self._settings.lateness_ms:
                names = pa.array(firing.names)
                self._sessions.put_all(owners, names, firing.structs(np.ones(len(fires), dtype=np.bool_)))
                times = pa.array(last[fires] + self._settings.lateness_ms)
                self._timers.register_all(self._domain, owners, times, names)
        over = np.flatnonzero(last + self._settings.lateness_ms <= self._watermark_ms)
        if over.size:
            gone, names = keys.take(over), pa.array(sessions.names[over])
            self._accumulators.delete(gone, names)
            self._sessions.put_all(gone, names, pa.nulls(len(over), _SESSION))

    def _fire_early(self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array) -> None:
        found, sessions = self._present(keys, namespaces, np.arange(len(keys)))
        rows = np.flatnonzero(sessions.ends - 1 > self._watermark_ms)
        if rows.size:
            open_ones = sessions.take(rows)
            self._fire(found.take(rows), [column.take(pa.array(open_ones.owners)) for column in columns], open_ones)

    def _present(self, keys: Rows, namespaces: pa.Array, rows: Ints) -> tuple[Rows, _Sessions]:
        """The keys and sessions of the rows whose sessions still exist."""
        names = namespaces.take(pa.array(rows))
        found = self._sessions.take(keys.take(rows), names)
        kept = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        rows = rows[kept]
        return keys.take(rows), _Sessions.of(rows, names.to_numpy()[kept], found.take(pa.array(kept)))


def _runs(owners: Ints, times: Ints, gap_ms: int) -> tuple[Ints, Ints, Bools]:
    """Order of rows by owner and time, where in it each run without a gap starts, and whether a row starts one."""
    order = np.lexsort((times, owners))
    began = np.ones(len(order), dtype=np.bool_)
    ordered, sorted_owners = times[order], owners[order]
    began[1:] = (sorted_owners[1:] != sorted_owners[:-1]) | (ordered[1:] - ordered[:-1] > gap_ms)
    return order, np.flatnonzero(began), began


def _began(owners: Ints, starts: Ints, ends: Ints) -> Bools:
    """Which spans, sorted by owner and start, neither overlap nor touch any before them."""
    # Ranks instead of times: adding an offset per owner keeps owners apart without overflow.
    values, ranks = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    apart = owners * len(values)
    start_ranks, end_ranks = ranks[: len(starts)] + apart, ranks[len(starts) :] + apart
    began = np.ones(len(starts), dtype=np.bool_)
    began[1:] = (start_ranks[1:] > np.maximum.accumulate(end_ranks)[:-1]) | (owners[1:] != owners[:-1])
    return began
