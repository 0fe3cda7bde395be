"""pandas comes into an operator process only if somebody wants it, and then pyarrow knows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import sys
import pyarrow as pa
from snapline.runtime.slot.late_pandas import put_off_pandas
put_off_pandas()
assert pa.array([1, None]).null_count == 1
assert "pandas" not in sys.modules
"""


@pytest.mark.parametrize(
    "then",
    [
        "import pandas\nassert pa.array(pandas.Series([1.0, float('nan')])).null_count == 1",
        "import pandas.api.types\nassert pa.array(sys.modules['pandas'].Series([float('nan')])).null_count == 1",
        "frame = pa.table({'x': [1]}).to_pandas()\nassert pa.array(frame['x']).to_pylist() == [1]",
        "put_off_pandas()\nimport pandas\nassert pandas.__spec__.loader.get_source('pandas')\nput_off_pandas()",
    ],
    ids=["imported", "a module of it", "by pyarrow", "put off twice"],
)
def test_pyarrow_knows_pandas_once_it_is_there(then: str) -> None:
    done = subprocess.run([sys.executable, "-c", START + then], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_pandas_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise ImportError('not here')")
    then = """
try:
    import pandas
except ImportError:
    pass
else:
    raise AssertionError
assert pa.array([1]).to_pylist() == [1]
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", START + then], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
