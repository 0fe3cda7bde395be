"""What commands print: text, tables and JSON, in a form that every terminal and pipe can take."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from snapline.text import time_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PIPE_WIDTH = 10_000


def print_json(document: object, *, indent: int | None = 2) -> None:
    """Print a document on standard output; without `indent`, in one line."""
    text = json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # The terminal cannot encode some letters, or a name is not valid text: escape them.
        text = json.dumps(document, indent=indent, allow_nan=False)
    sys.stdout.write(f"{text}\n")


def console() -> Console:
    """Standard output: as wide as the terminal; without cutting, wrapping or colors in a pipe."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH, color_system=None)


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(printable(column)), overflow="fold")
    for cells in rows:
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    console().print(make_table(columns, rows, title))


def say(text: str, style: str = "") -> None:
    """Print a line on standard output."""
    from rich.text import Text

    console().print(Text(printable(text), style=style), soft_wrap=True)


def warn(text: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(f"snapline: {printable(' '.join(text.split()))}\n")


def printable(text: str) -> str:
    """The text with control and unencodable characters escaped: names and values come from files and from others."""
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def moment(timestamp_ms: int | None) -> str | None:
    """A time to the millisecond, None for None."""
    return None if timestamp_ms is None else time_text(timestamp_ms, "milliseconds")
