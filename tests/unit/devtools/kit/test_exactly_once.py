"""The proof notices rows that are missing, doubled, or counted wrongly."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snapline.devtools.kit.exactly_once import NUMBERED, numbering_job, prove
from snapline.testing import ThreadCluster

RIGHT = [(0, "ann", 1), (1, "bob", 1), (2, "ann", 2)]


def output(directory: Path, rows: list[tuple[int, str, int]]) -> Path:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), NUMBERED, strict=True)]
    pq.write_table(pa.Table.from_arrays(columns, schema=NUMBERED), directory / "part-0.parquet")
    return directory


@pytest.mark.parametrize(
    ("rows", "problems", "of_at_least_once"),
    [
        (RIGHT, [], []),
        (RIGHT[:2], ["1 of 3 rows are missing"], ["1 of 3 rows are missing"]),
        (
            [*RIGHT, RIGHT[0]],
            ["1 rows are there more than once", "ann: 3 rows, 2 different numbers, the highest 2"],
            [],
        ),
        ([*RIGHT[:2], (2, "ann", 3)], ["ann: 2 rows, 2 different numbers, the highest 3"], []),
    ],
)
def test_what_is_wrong_is_seen(
    rows: list[tuple[int, str, int]], problems: list[str], of_at_least_once: list[str], tmp_path: Path
) -> None:
    proof = prove(output(tmp_path, rows), 3)
    assert (list(proof.problems), proof.is_exactly_once) == (problems, not problems)
    assert list(prove(tmp_path, 3, at_least_once=True).problems) == of_at_least_once


def test_no_output_proves_nothing(tmp_path: Path) -> None:
    assert prove(tmp_path, 3).problems == ("3 of 3 rows are missing",)
    assert prove(tmp_path, 0).is_exactly_once


def test_the_job_numbers_every_row_although_its_code_fails(tmp_path: Path) -> None:
    made = numbering_job("numbers", tmp_path, rows=3000, users=7, fail_after_rows=1000, batch_rows=100)
    made.job.run(ThreadCluster())
    assert made.prove().problems == ()
