"""Batches of messages with bad ones and ones without a value, for any format."""

from __future__ import annotations

import pyarrow as pa
import pytest

import snapline as sl
from snapline.connectors.formats.message_format import BatchDecoder, Nulls
from snapline.errors import ConfigurationError, StorageError

SCHEMA = pa.schema([("n", pa.int64())])


class Numbers(BatchDecoder):
    """Messages are numbers. Counts its attempts."""

    def __init__(self, nulls: Nulls = "bad", suspect: bytes = b"?", sure: bytes = b"!") -> None:
        super().__init__(SCHEMA, nulls, "number")
        self._suspect = suspect
        self._sure = sure
        self.attempts: list[int] = []

    def _rows(self, messages: list[bytes]) -> pa.RecordBatch:
        self.attempts.append(len(messages))
        if b"storage" in messages:
            raise StorageError("away")
        return pa.RecordBatch.from_pylist([{"n": int(message)} for message in messages], SCHEMA)

    def _verdict(self, message: bytes) -> tuple[Exception | None, bool]:
        if message == self._sure:
            return ValueError("sure"), True
        return (ValueError("suspect") if message == self._suspect else None), False


def numbers(decoded: sl.formats.Decoded) -> list[int | None]:
    found: list[int | None] = decoded.batch.column(0).to_pylist()
    return found


def test_a_good_batch_is_decoded_at_once() -> None:
    decoder = Numbers()
    decoded = decoder.decode([b"1", b"2", b"3"])
    assert (numbers(decoded), decoded.bad, decoded.kept, decoder.attempts) == ([1, 2, 3], [], None, [3])


def test_no_messages_are_no_rows() -> None:
    decoder = Numbers()
    decoded = decoder.decode([])
    assert decoded.batch.schema == SCHEMA
    assert (numbers(decoded), decoded.kept, decoder.attempts) == ([], None, [])


def test_an_arrow_array_and_any_sequence_will_do() -> None:
    assert numbers(Numbers().decode(pa.array([b"1", b"2"]))) == [1, 2]
    assert numbers(Numbers().decode((b"1", b"2"))) == [1, 2]


def test_bad_messages_are_found_and_the_others_stay_in_order() -> None:
    decoded = Numbers(suspect=b"5").decode([b"0", b"x", b"5", b"!", b"4", b"y"])
    assert numbers(decoded) == [0, 5, 4]
    assert decoded.kept is not None
    assert decoded.kept.to_pylist() == [0, 2, 4]
    assert [number for number, _ in decoded.bad] == [1, 3, 5]
    assert "cannot be decoded as number: invalid literal" in str(decoded.bad[0][1])
    assert "cannot be decoded as number: sure" in str(decoded.bad[1][1])


def test_suspects_are_tried_apart() -> None:
    decoder = Numbers()
    decoded = decoder.decode([b"?", *[b"1"] * 1000])
    assert numbers(decoded) == [1] * 1000
    assert decoder.attempts == [1001, 1000, 1]


def test_only_bad_messages_are_no_rows() -> None:
    decoded = Numbers().decode([b"x", b"!"])
    assert (numbers(decoded), len(decoded.bad)) == ([], 2)
    assert decoded.kept is not None
    assert decoded.kept.to_pylist() == []


def test_an_error_that_is_no_messages_fault_is_raised() -> None:
    with pytest.raises(StorageError):
        Numbers().decode([b"1", b"storage"])


@pytest.mark.parametrize(
    ("nulls", "rows", "kept", "bad"),
    [
        ("bad", [1, 2], [1, 4], [0, 2, 3]),
        ("skip", [1, 2], [1, 4], [2]),
        ("row", [None, 1, None, 2], [0, 1, 3, 4], [2]),
    ],
)
def test_messages_without_a_value(nulls: Nulls, rows: list[int | None], kept: list[int], bad: list[int]) -> None:
    decoded = Numbers(nulls).decode([None, b"1", b"x", None, b"2"])
    assert numbers(decoded) == rows
    assert decoded.kept is not None
    assert decoded.kept.to_pylist() == kept
    assert [number for number, _ in decoded.bad] == bad


def test_only_messages_without_a_value() -> None:
    decoded = Numbers("row").decode([None, None])
    assert (numbers(decoded), decoded.kept) == ([None, None], None)
    (_, error), _ = Numbers("bad").decode([None, None]).bad
    assert "has no value, so it is no number; for topics with tombstones set nulls='row'" in str(error)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="nulls='no'; use one of 'bad', 'row', 'skip'"):
        sl.formats.Json("n BIGINT", nulls="no")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'n' may have none"):
        sl.formats.Json(pa.schema([pa.field("n", pa.int64(), nullable=False)]), nulls="row")


def test_every_format_is_exported() -> None:
    formats = [getattr(sl.formats, name) for name in ("Avro", "Json", "Protobuf", "Raw")]
    assert all(issubclass(kind, sl.formats.MessageFormat) for kind in formats)
    assert set(sl.formats.__all__) > {kind.__name__ for kind in formats}
