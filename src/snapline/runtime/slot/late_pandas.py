"""Keeps pandas out of a process until somebody wants it: importing it takes as long as starting everything else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pyarrow as pa

_NAME = "pandas"


def put_off_pandas() -> None:
    """Let pyarrow do without pandas until it is imported.

    pyarrow imports it, where it is installed, as soon as it is given a list: the list might be a Series. Without pandas
    in the process it can be none.
    """
    if _NAME in sys.modules or any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    pa.array([0])
    finder.hides = False


class _Finder(MetaPathFinder):
    """Hides pandas from the first look of pyarrow; then sees its first import, and tells pyarrow."""

    hides = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != _NAME:
            return None
        if self.hides:
            raise ModuleNotFoundError(f"{_NAME} is not imported yet", name=_NAME)
        sys.meta_path.remove(self)
        spec = find_spec(_NAME)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def run_and_tell(module: ModuleType) -> None:
                run(module)
                _ = pa.lib._pandas_api.pd  # looks for it again

            loader.exec_module = run_and_tell
        return spec
