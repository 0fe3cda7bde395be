from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import call, literal, values

from snapline.sql.expressions.compiler import Program

ROWS = pa.array([1, 2, 3])


def test_a_seed_makes_the_same_numbers() -> None:
    seeded = call("Rand", pa.float64(), literal(7, pa.int64()), deterministic=False)
    first = values(seeded, ROWS)
    assert first == values(seeded, ROWS)
    assert len(set(first)) == 3
    assert all(0 <= value < 1 for value in first)


def test_identifiers_are_unique_even_if_asked_for_twice() -> None:
    unique = call("Uuid", pa.string(), deterministic=False)
    batch = pa.RecordBatch.from_arrays([ROWS], names=["c0"])
    first, second = Program([unique, unique], []).arrays(batch)
    assert len({*first.to_pylist(), *second.to_pylist()}) == 6


def test_row_numbers_go_on_in_the_next_batch() -> None:
    program = Program([call("MonotonicallyIncreasingID", pa.int64(), deterministic=False)], [])
    batch = pa.RecordBatch.from_arrays([ROWS], names=["c0"])
    assert [program.arrays(batch)[0].to_pylist() for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]


def test_random_texts_have_the_length_and_only_letters_and_digits() -> None:
    made = values(call("RandStr", pa.string(), literal(7, pa.int32())), pa.array([0] * 50))
    assert all(len(text) == 7 and text.isascii() and text.isalnum() for text in made)
    assert len(set(made)) > 40
