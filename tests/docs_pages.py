"""The Python in the pages for users: found, and run as the page says it runs."""

from __future__ import annotations

import ast
import io
import re
from contextlib import redirect_stdout
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

NEVER = "no-run"
ON_SPARK = "spark"
"""What follows the word `python` at blocks that are not run, or only on Spark."""

_RESULT = "# -> "


class Block(NamedTuple):
    """Python of a page; `line` is where in the page it begins, `info` what follows the word `python`."""

    line: int
    info: str
    code: str


def blocks(page: str) -> list[Block]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found = BLOCK.finditer(text)
    return [Block(text.count("\n", 0, match.start(2)), match[1].strip(), match[2]) for match in found]


def run_page(page: str, *infos: str, **given: Any) -> None:
    """Run the blocks of a page that are marked with nothing or one of `infos`, as one program with the names given."""
    names: dict[str, Any] = {"__name__": "__main__", **given}  # as in a script: its classes are pickled as a whole
    for block in blocks(page):
        if block.info in ("", *infos):
            _run(page, block, names)


def _run(page: str, block: Block, names: dict[str, Any]) -> None:
    """Execute a block statement by statement; a line that ends in a result must have it.

    So must comments right behind a statement that prints: they are what it prints, where `...` stands for anything.
    """
    lines = block.code.splitlines()
    tree = ast.increment_lineno(ast.parse(block.code), block.line)
    for statement in tree.body:
        end = (statement.end_lineno or 0) - block.line
        last = lines[end - 1]
        shown = [line.removeprefix("#").strip() for line in takewhile(_is_comment, lines[end:])]
        printed = io.StringIO()
        if isinstance(statement, ast.Expr) and _RESULT in last:
            with redirect_stdout(printed):
                value = eval(compile(ast.Expression(statement.value), page, "eval"), names)
            expected = last.partition(_RESULT)[2]
            assert repr(value) == expected, f"{page}:{statement.lineno}"
        else:
            assert _RESULT not in last, f"{page}:{statement.lineno}: only an expression has a result"
            with redirect_stdout(printed):
                exec(compile(ast.Module([statement], []), page, "exec"), names)
        if printed.getvalue() and shown:
            assert _is_alike(printed.getvalue(), shown), f"{page}:{statement.lineno} prints\n{printed.getvalue()}"


def _is_comment(line: str) -> bool:
    return line.startswith("#")


def _is_alike(printed: str, shown: list[str]) -> bool:
    pattern = re.escape("\n".join(shown)).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
