"""Rows of partitions with how many times they are there, as changes are applied to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.state.arrays import Ints


@dataclass(frozen=True, slots=True)
class RankedEntries:
    """Rows: the partition, code, number of copies, sequence number and values of each."""

    groups: Ints
    codes: pa.Array
    counts: Ints
    sequence: Ints
    rows: pa.Array

    def take(self, chosen: Ints) -> RankedEntries:
        at = pa.array(chosen)
        return RankedEntries(
            self.groups[chosen], self.codes.take(at), self.counts[chosen], self.sequence[chosen], self.rows.take(at)
        )

    def with_counts(self, counts: Ints) -> RankedEntries:
        return RankedEntries(self.groups, self.codes, counts, self.sequence, self.rows)

    def followed_by(self, other: RankedEntries) -> RankedEntries:
        return RankedEntries(
            np.concatenate([self.groups, other.groups]),
            pa.concat_arrays([self.codes, other.codes]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.sequence, other.sequence]),
            pa.concat_arrays([self.rows, other.rows]),
        )


def merged_entries(old: RankedEntries, changes: RankedEntries) -> tuple[RankedEntries, Ints, Ints]:
    """Entries with changes applied, how many of each there were, and which of them have changed."""
    codes = pc.dictionary_encode(pa.concat_arrays([old.codes, changes.codes]))
    identity = np.concatenate([old.groups, changes.groups]) * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
    _, firsts, inverse = np.unique(identity, return_index=True, return_inverse=True)
    together = old.followed_by(changes)
    counts = np.bincount(inverse, weights=together.counts, minlength=len(firsts)).astype(np.int64)
    before = np.bincount(inverse[: len(old.counts)], weights=old.counts, minlength=len(firsts)).astype(np.int64)
    entries = together.take(firsts).with_counts(counts)
    return entries, before, np.unique(inverse[len(old.counts) :])


def appended_entries(old: RankedEntries, added: RankedEntries) -> tuple[RankedEntries, Ints, Ints]:
    """The same for entries that are all new."""
    entries, count = old.followed_by(added), len(old.counts)
    before = np.where(np.arange(len(entries.counts)) < count, entries.counts, 0)
    return entries, before, np.arange(count, len(entries.counts))
