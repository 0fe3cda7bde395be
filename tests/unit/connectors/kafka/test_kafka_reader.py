from __future__ import annotations

import pytest

import snapline as sl
from snapline.contracts.source import ReaderContext
from snapline.errors import RestoreError


def test_a_reader_without_splits_connects_to_nothing() -> None:
    reader = sl.sources.Kafka("127.0.0.1:1", "t", format=sl.formats.Raw()).reader(ReaderContext("j", "u", 0, 1))
    assert reader.read() is None
    assert reader.positions(1) == []
    reader.checkpoint_completed(1)
    reader.close()


@pytest.mark.parametrize("split", [{"path": "a"}, ["t", 0], ["t", "0", 0, None]])
def test_splits_of_other_sources_are_refused(split: object) -> None:
    reader = sl.sources.Kafka("127.0.0.1:1", "t", format=sl.formats.Raw()).reader(ReaderContext("j", "u", 0, 1))
    with pytest.raises(RestoreError, match="not a split of Kafka"):
        reader.add_split(split, None)


def test_positions_are_those_of_the_splits() -> None:
    reader = sl.sources.Kafka("127.0.0.1:1", "t", format=sl.formats.Raw()).reader(ReaderContext("j", "u", 0, 1))
    reader.add_split(["t", 0, -2, None], None)
    reader.add_split(["t", 1, 5, None], None)
    reader.add_split(["t", 2, -2, None], 7)
    assert reader.positions(1) == [(["t", 0, -2, None], None), (["t", 1, 5, None], 5), (["t", 2, -2, None], 7)]
