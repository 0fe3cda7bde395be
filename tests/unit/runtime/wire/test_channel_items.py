"""What travels in a channel, and what it counts for."""

from __future__ import annotations

import pyarrow as pa

from snapline.runtime.wire.channel_items import ITEM_COST_BYTES, Item, ItemKind, data_item

ROWS = pa.record_batch({"x": pa.array([1, 2, 3], pa.int64())})


def test_a_batch_counts_with_its_bytes_and_a_share_of_its_own() -> None:
    assert data_item(ROWS) == Item(ItemKind.DATA, ROWS, 24 + ITEM_COST_BYTES)
    assert data_item(ROWS.slice(0, 0)).size == ITEM_COST_BYTES, "many empty ones have a limit too"


def test_a_slice_counts_with_its_own_rows() -> None:
    assert data_item(ROWS.slice(1, 1)).size == 8 + ITEM_COST_BYTES


def test_replayed_batches_are_data_that_each_receiver_filters() -> None:
    item = data_item(ROWS, filtered=True)
    assert item.kind is ItemKind.FILTERED_DATA
    assert item.kind.is_data


def test_only_data_counts_against_the_memory_of_a_channel() -> None:
    assert [kind for kind in ItemKind if kind.is_data] == [ItemKind.DATA, ItemKind.FILTERED_DATA]
    assert Item(ItemKind.CANCEL, 7).size == 0
