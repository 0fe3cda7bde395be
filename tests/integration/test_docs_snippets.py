"""The Python in the pages for users runs, in the order of the page, and gives what the page says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import snapline

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("state.md", "storage.md")
RESULT = "# -> "
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MESSAGE_TABLE = re.compile(r"^\| message has \|.*\n\|[-| ]+\n((?:\|.*\n)+)", re.MULTILINE)


class Block(NamedTuple):
    """Python of a page; `line` is where in the page it begins, `info` what follows the word `python`."""

    line: int
    info: str
    code: str


def blocks(page: str) -> list[Block]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found = BLOCK.finditer(text)
    return [Block(text.count("\n", 0, match.start(2)), match[1].strip(), match[2]) for match in found]


def run(page: str, block: Block, names: dict[str, Any]) -> None:
    """Execute a block statement by statement; a line that ends in a result must have it."""
    lines = block.code.splitlines()
    tree = ast.increment_lineno(ast.parse(block.code), block.line)
    for statement in tree.body:
        last = lines[(statement.end_lineno or 0) - block.line - 1]
        if isinstance(statement, ast.Expr) and RESULT in last:
            value = eval(compile(ast.Expression(statement.value), page, "eval"), names)
            expected = last.partition(RESULT)[2]
            assert repr(value) == expected, f"{page}:{statement.lineno}"
        else:
            assert RESULT not in last, f"{page}:{statement.lineno}: only an expression has a result"
            exec(compile(ast.Module([statement], []), page, "exec"), names)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    runnable = [block for block in blocks(page) if not block.info]
    assert len(runnable) > 3
    for block in runnable:
        run(page, block, names)


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_is_python_at_least(page: str) -> None:
    others = [block for block in blocks(page) if block.info]
    assert {block.info for block in others} <= {"no-run"}
    for block in others:
        ast.parse(block.code)


@pytest.mark.parametrize("page", PAGES)
def test_messages_in_the_tables_are_those_of_the_code(page: str) -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in Path(snapline.__file__).parent.rglob("*.py"))
    rows = [
        row for table in MESSAGE_TABLE.findall((DOCS / page).read_text(encoding="utf-8")) for row in table.split("\n")
    ]
    messages = [message for row in rows if row for message in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert len(messages) > 10
    missing = [piece for message in messages for piece in message.split(" ... ") if piece not in source]
    assert missing == []
