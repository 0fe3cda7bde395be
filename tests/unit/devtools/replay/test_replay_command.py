"""The command: lines in, lines out, and lines that are no scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO, TextIOWrapper

import pytest
from tests.unit.devtools.replay.replay_kit import error_of

from snapline.devtools.replay.replay_command import EXAMPLES, KINDS, answer, main


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "the line is not JSON"),
        ("B1@0", "the line is not JSON"),
        (b"\xff\xfe\xfd", "the line is not JSON"),
        ('{"id": NaN}', "NaN is not a JSON number"),
        ('{"id": 1e999}', "1e999 is too large"),
        ("9" * 5000, "the line is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "the line is []; use a JSON object"),
        ("null", "the line is null; use a JSON object"),
        ('{"id": ["a"]}', 'id is ["a"]; use a string or a number'),
        ('{"id": true}', "id is true; use a string or a number"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_line_that_is_no_script_has_no_id(kind: str, line: str | bytes, complaint: str) -> None:
    answered = json.loads(answer(kind, line))
    assert answered.keys() == {"id", "error"}
    assert answered["id"] is None
    assert complaint in answered["error"]


@pytest.mark.parametrize("identity", ["A2", "ä", "", 0, 7, 1.5, None])
def test_the_id_comes_back_as_it_is(identity: object) -> None:
    answered = json.loads(answer("retention", json.dumps({"id": identity, "added": ["c1"]})))
    assert answered == {"id": identity, "retained": ["c1"]}
    answered = json.loads(answer("retention", json.dumps({"id": identity})))
    assert (answered["id"], "error" in answered) == (identity, True)


def test_a_script_without_id_is_answered_all_the_same() -> None:
    assert json.loads(answer("retention", '{"added": []}')) == {"id": None, "retained": []}


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_in_the_help_are_understood(kind: str) -> None:
    assert EXAMPLES[kind]
    for line in EXAMPLES[kind]:
        answered = json.loads(answer(kind, line))
        assert answered["id"] == "x"
        assert len(answered) > 1
        assert answered.get("error") is None


def test_a_long_value_is_shortened_in_the_message() -> None:
    error = error_of("barriers", handler="a" * 1000)
    assert len(error) < 200
    assert "a..." in error


def run_main(monkeypatch: pytest.MonkeyPatch, kind: str, text: bytes) -> int:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
    return main([kind])


def test_the_tool_goes_on_after_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = b'{"id": 1, "added": ["c1"]}\n\n{"id": 2}\n  \n\xff\n{"id": 3, "added": []}'
    assert run_main(monkeypatch, "retention", lines) == 0
    captured = capsys.readouterr()
    answers = [json.loads(line) for line in captured.out.splitlines()]
    assert [(each["id"], sorted(each.keys() - {"id"})) for each in answers] == [
        (1, ["retained"]),
        (2, ["error"]),
        (None, ["error"]),
        (3, ["retained"]),
    ]
    assert captured.err == ""


def test_no_input_no_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(monkeypatch, "plan", b"") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [[], ["barrier"], ["barriers", "decider"], [""]])
def test_a_wrong_kind_ends_the_tool_with_the_kinds(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(kind in captured.err for kind in KINDS)


def test_the_help_shows_a_line_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(line in shown for lines in EXAMPLES.values() for line in lines)
    assert "An@c     announcement" in shown


def test_ctrl_c_ends_the_tool_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(BytesIO):
        def __next__(self) -> bytes:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", TextIOWrapper(Interrupted()))
    assert main(["plan"]) == 130
    assert capsys.readouterr() == ("", "")


def start(kind: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "snapline.testing.replay", kind]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_as_a_program_each_line_is_answered_at_once() -> None:
    with start("keygroups") as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line in EXAMPLES["keygroups"]:
            program.stdin.write(line.encode() + b"\n")
            program.stdin.flush()
            assert json.loads(program.stdout.readline())["id"] == "x"
        assert program.communicate(b"nonsense\n", timeout=60)[1] == b""
    assert program.returncode == 0


def test_a_reader_that_leaves_ends_the_program_quietly() -> None:
    with start("keygroups") as program:
        assert program.stdout is not None
        program.stdout.close()
        program.stdout = None
        _, complaints = program.communicate(b"{}\n" * 10, timeout=60)
    assert (program.returncode, complaints) == (0, b"")


def test_a_script_may_carry_notes_that_are_not_read() -> None:
    script = {"id": "x", "max_parallelism": 4, "parallelism": 2}
    noted = {**script, "note": "two halves", "expect": [[0, 1], [2, 3]]}
    assert answer("keygroups", json.dumps(noted)) == answer("keygroups", json.dumps(script))
