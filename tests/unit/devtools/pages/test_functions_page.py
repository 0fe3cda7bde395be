from __future__ import annotations

from pathlib import Path

from snapline.devtools.pages.functions_page import is_supported, known_expressions, main, render_page, spark_functions

ABS = {"class": "Abs", "group": "math_funcs", "examples": [["Abs", "Alias", "Literal"]]}
NVL = {"class": "Nvl", "group": "conditional_funcs", "examples": [["Alias", "Coalesce", "Literal"]]}
ODD = {"class": "Odd", "group": "math_funcs", "examples": [["Odd", "Literal"]]}


def test_a_function_is_supported_by_itself_or_by_what_it_consists_of() -> None:
    known = known_expressions()
    assert is_supported(ABS, known)
    assert is_supported(NVL, known)
    assert not is_supported(ODD, known)


def test_the_page_lists_functions_by_group() -> None:
    page = render_page({"abs": ABS, "odd": ODD, "nvl": NVL, "%": ABS}, known_expressions())
    assert "2 of 3 functions are supported." in page
    assert "| `abs` | `Abs` | supported |" in page
    assert "| `odd` | `Odd` | not supported |" in page
    assert page.index("## Conditionals") < page.index("## Mathematics")


def test_at_least_150_functions_are_supported() -> None:
    known = known_expressions()
    assert sum(is_supported(function, known) for function in spark_functions().values()) >= 150


def test_the_check_finds_a_stale_page(tmp_path: Path) -> None:
    path = tmp_path / "functions.md"
    assert main(["--check", str(path)]) == 1
    assert main([str(path)]) == 0
    assert main(["--check", str(path)]) == 0
    path.write_text("old")
    assert main(["--check", str(path)]) == 1
