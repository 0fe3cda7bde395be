"""What is printed can be printed anywhere."""

from __future__ import annotations

import io
import json

import pytest

from snapline.cli.terminal_output import moment, print_json, print_table, printable, say, warn

Output = pytest.CaptureFixture[str]


class Ascii(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="ascii")

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined,no-any-return]


def test_control_characters_and_letters_that_the_terminal_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printable("a\x1b[31mé\n") == "a\\x1b[31mé\\n"
    stream = Ascii()
    monkeypatch.setattr("sys.stdout", stream)
    assert printable("é") == "\\xe9"
    print_json({"é": 1})
    assert json.loads(stream.text()) == {"é": 1}


def test_json_in_one_line(capsys: Output) -> None:
    print_json({"a": [1, "é"]}, indent=None)
    assert capsys.readouterr().out == '{"a": [1, "é"]}\n'


def test_text_is_no_markup_and_is_not_wrapped_in_a_pipe(capsys: Output) -> None:
    say("[red]x[/red] " + "y" * 300, "bold")
    assert capsys.readouterr().out == "[red]x[/red] " + "y" * 300 + "\n"
    print_table(("a", "[b]"), [("1", "[red]")], title="t")
    assert capsys.readouterr().out.split() == ["t", "a", "[b]", "1", "[red]"]


def test_warnings_are_one_line_on_standard_error(capsys: Output) -> None:
    warn("two\nlines\x07")
    assert capsys.readouterr() == ("", "snapline: two lines\\x07\n")


def test_moments() -> None:
    assert moment(None) is None
    assert moment(1) == "1970-01-01T00:00:00.001Z"
