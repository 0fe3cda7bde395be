from __future__ import annotations

import inspect

from snapline.connectors.files.file_formats import open_rows
from snapline.connectors.files.file_rows import FileRows
from snapline.connectors.files.line_rows import LineRows
from snapline.connectors.files.orc_rows import OrcRows


def test_every_reader_of_a_file_has_all_of_the_contract() -> None:
    for kind in (LineRows, OrcRows):
        assert issubclass(kind, FileRows)
        assert not inspect.isabstract(kind)
    assert inspect.signature(open_rows, eval_str=True).return_annotation is FileRows
