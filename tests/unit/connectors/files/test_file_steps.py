"""How files are handed out step by step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import snapline as sl
from snapline.connectors.files.file_steps import FileSteps, ListedFile, StepLimit
from snapline.errors import ConfigurationError

FILES = [ListedFile("b", 5, 1), ListedFile("a", 5, 2), ListedFile("d", 20, 3), ListedFile("c", 1, 3)]


class Directory:
    def __init__(self, files: list[ListedFile]) -> None:
        self.files = files
        self.listings = 0

    def __call__(self) -> list[ListedFile]:
        self.listings += 1
        return self.files


def all_steps(limit: StepLimit) -> list[list[str]]:
    """What each step reads until there is nothing left."""
    steps, known, found = FileSteps(limit, Directory(FILES)), list[str](), list[list[str]]()
    while True:
        names, known = steps.next(known)
        if not names:
            return found
        found.append(names)
        steps.settled(known)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (StepLimit(files=1), [["b"], ["a"], ["c"], ["d"]]),
        (StepLimit(files=3), [["b", "a", "c"], ["d"]]),
        (StepLimit(files=3, latest_first=True), [["d", "c", "a"], ["b"]]),
        (StepLimit(bytes=10), [["b", "a"], ["c"], ["d"]]),
        (StepLimit(bytes=1), [["b"], ["a"], ["c"], ["d"]]),
        (StepLimit(files=2, bytes=6), [["b"], ["a", "c"], ["d"]]),
    ],
)
def test_a_step_has_the_oldest_files_up_to_its_limit(limit: StepLimit, expected: list[list[str]]) -> None:
    assert all_steps(limit) == expected


def test_there_is_no_other_step_before_the_files_of_the_last_are_read() -> None:
    steps = FileSteps(StepLimit(files=2), Directory(FILES))
    first, known = steps.next([])
    assert steps.is_open
    assert steps.next(known) == ([], known)
    steps.settled([])  # a checkpoint from before this step
    assert steps.next(known) == ([], known)
    steps.settled(known)
    assert steps.next(known)[0] == ["c", "d"]
    assert first == ["b", "a"]


def test_a_step_that_no_checkpoint_knows_is_handed_out_again() -> None:
    steps = FileSteps(StepLimit(files=1), Directory(FILES))
    first, known = steps.next([])
    assert steps.next([])[0] == first, "before the first checkpoint"
    steps.settled(known)
    second, _ = steps.next(known)
    assert steps.next(known)[0] == second, "the job has gone back to the checkpoint before"
    assert steps.next([])[0] == first, "to its beginning"


def test_the_directory_is_listed_when_nothing_is_left_and_deleted_files_are_forgotten() -> None:
    directory = Directory(list(FILES))
    steps = FileSteps(StepLimit(files=1), directory)
    known: list[str] = []
    for _ in FILES:
        _, known = steps.next(known)
        steps.settled(known)
    assert directory.listings == 1
    directory.files = [ListedFile("e", 1, 9), FILES[0]]
    assert steps.next(known) == (["e"], ["b", "e"])


def test_limits_need_numbers_and_a_directory_that_is_watched(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="only with watch="):
        sl.sources.Files(tmp_path, format="text", schema="line string", files_per_checkpoint=1)
    for wrong in (0, -1, True, "1"):
        with pytest.raises(ConfigurationError, match="give a positive number"):
            sl.sources.Files(tmp_path, format="text", schema="line string", watch="1s", files_per_checkpoint=wrong)  # type: ignore[arg-type]


def test_a_source_hands_out_files_by_their_times(tmp_path: Path) -> None:
    for number, name in enumerate("zax"):
        (tmp_path / name).write_text("1\n")
        os.utime(tmp_path / name, (number, number))
    source = sl.sources.Files(tmp_path, format="text", schema="line string", watch="1s", files_per_checkpoint=2)
    splits, known = source.discover(None)
    assert [os.path.basename(split["path"]) for split in splits] == ["z", "a"]
    assert source.discover(known) == ([], known)
    source.all_read(known)
    assert [os.path.basename(split["path"]) for split in source.discover(known)[0]] == ["x"]
