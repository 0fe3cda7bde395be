"""The page of SQL functions: which of Spark's built-in functions run here.

Run as `python -m snapline.devtools.pages.functions_page [--check] [PATH]`. What each function consists of is in
`spark_functions.json`, which `python -m benchmarks.expressions.examples` makes with the help of Spark.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import snapline.sql.expressions.compiler  # noqa: F401 (enters all expressions)
from snapline.sql.catalyst.session_values import SESSION_VALUES
from snapline.sql.expressions.registry import FORMS, KERNELS

DEFAULT_PATH = Path("docs/functions.md")

INTRO = """\
# SQL functions

Which of Spark's built-in functions run in a streaming query on Snapline, with Spark's meaning. `make docs` makes this
page from the registry of expressions: a function is supported if the expressions that Spark makes of it run here.
Operators and `CAST` are expressions, too. Aggregates, window functions, generators and the windows of event time are
not on this page: they are operators of a query.

Some values are refused, with an error that names the function, because Spark's answer for them cannot be given exactly:
text that is no UTF-8 where Spark computes on its bytes (`length`, `substring`, `trim` and the like: write
`make_valid_utf8(...)` around it), and dates and timestamps more than 290,000 years away in functions of the calendar.
"""

_HEADINGS = {
    "array_funcs": "Arrays",
    "bitwise_funcs": "Bits",
    "collection_funcs": "Collections",
    "conditional_funcs": "Conditionals",
    "conversion_funcs": "Conversions",
    "csv_funcs": "CSV",
    "datetime_funcs": "Dates and times",
    "hash_funcs": "Hashes",
    "json_funcs": "JSON",
    "lambda_funcs": "Lambda functions",
    "map_funcs": "Maps",
    "math_funcs": "Mathematics",
    "misc_funcs": "Miscellaneous",
    "predicate_funcs": "Predicates",
    "string_funcs": "Strings",
    "struct_funcs": "Structs",
    "url_funcs": "URLs",
    "variant_funcs": "Variants",
    "xml_funcs": "XML",
}

_ALWAYS = frozenset({"AttributeReference", "LambdaFunction"})
_OPERATORS = frozenset({"window", "session_window", "window_time"})
_WITHOUT_TYPE = frozenset({"time"})
"""Casts to types that do not run here, whatever their class."""

_NO_INTERVALS = "not with intervals"
_LIMITS: Mapping[str, str] = {
    "cast": "but not of text to intervals, and of arrays, maps and structs of intervals",
    "from_csv": _NO_INTERVALS,
    "from_json": _NO_INTERVALS,
    "to_csv": _NO_INTERVALS,
    "to_json": _NO_INTERVALS,
}
"""What a supported function does not take."""


def spark_functions() -> dict[str, dict[str, Any]]:
    """For each function of Spark: its class, its group, and the classes of expressions that its examples consist of."""
    found: dict[str, dict[str, Any]] = json.loads(files(__package__).joinpath("spark_functions.json").read_text())
    return found


def known_expressions() -> frozenset[str]:
    """The classes of expressions that run here."""
    return frozenset(KERNELS) | frozenset(FORMS) | frozenset(SESSION_VALUES) | _ALWAYS


def is_supported(function: Mapping[str, Any], known: Collection[str]) -> bool:
    """Whether the function itself, or all that one of its examples consists of, runs here."""
    return function["class"] in known or any(set(example) <= set(known) for example in function["examples"])


def render_page(functions: Mapping[str, Mapping[str, Any]], known: Collection[str]) -> str:
    """The whole page as Markdown, ending in a newline."""
    sections = [INTRO]
    shown = {
        name: each
        for name, each in functions.items()
        if each["group"] in _HEADINGS and name[0].isalpha() and name not in _OPERATORS
    }
    supported = {name for name, each in shown.items() if name not in _WITHOUT_TYPE and is_supported(each, known)}
    sections.append(f"{len(supported)} of {len(shown)} functions are supported.\n")
    for group, heading in _HEADINGS.items():
        names = sorted(name for name, each in shown.items() if each["group"] == group)
        if names:
            sections.append(_section(heading, names, shown, supported))
    return "\n".join(sections)


def _section(heading: str, names: Sequence[str], functions: Mapping[str, Any], supported: Collection[str]) -> str:
    lines = [f"## {heading}", "", "| function | class in Spark | |", "|---|---|---|"]
    for name in names:
        answer = "supported" if name in supported else "not supported"
        if name in supported and name in _LIMITS:
            answer += f", {_LIMITS[name]}"
        lines.append(f"| `{name}` | `{functions[name]['class']}` | {answer} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with `--check` compare it with the one on disk. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m snapline.devtools.pages.functions_page",
        description="Make the page of SQL functions from the registry of expressions.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is missing or stale")
    parser.add_argument("path", nargs="?", type=Path, default=DEFAULT_PATH, help="default: %(default)s")
    options = parser.parse_args(arguments)
    path: Path = options.path
    page = render_page(spark_functions(), known_expressions())
    if not options.check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
        return 0
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        sys.stderr.write(f"{path} is missing, or does not show the functions as they are now: run `make docs`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
