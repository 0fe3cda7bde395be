"""The page of state machines shows the tables exactly, and its check notices when it no longer does."""

from __future__ import annotations

import importlib
from enum import Enum
from pathlib import Path

import pytest

import snapline.protocol
from snapline.devtools.pages.machines_page import INTRO, FoundTable, find_tables, main, render_machine, render_page
from snapline.errors import EngineError
from snapline.protocol.machine import TransitionTable


class Door(Enum):
    OPEN = 1
    SHUT = 2
    LOCKED = 3
    WALLED_UP = 4


DOOR = TransitionTable(
    "Door",
    "What a door may do.",
    Door.OPEN,
    [
        (Door.OPEN, "pushed", Door.SHUT),
        (Door.SHUT, "pulled", Door.OPEN),
        (Door.OPEN, "wind", Door.SHUT),
        (Door.SHUT, "key turned", Door.LOCKED),
        (Door.LOCKED, "knocked", Door.LOCKED),
        (Door.SHUT, "mason came", Door.WALLED_UP),
    ],
)

DOOR_SECTION = """\
## Door

What a door may do.

Module: `house.door`

```mermaid
stateDiagram-v2
    [*] --> OPEN
    OPEN --> SHUT : pushed / wind
    SHUT --> OPEN : pulled
    SHUT --> LOCKED : key turned
    LOCKED --> LOCKED : knocked
    SHUT --> WALLED_UP : mason came
    WALLED_UP --> [*]
```

| From | On | To |
|---|---|---|
| OPEN | pushed | SHUT |
| SHUT | pulled | OPEN |
| OPEN | wind | SHUT |
| SHUT | key turned | LOCKED |
| LOCKED | knocked | LOCKED |
| SHUT | mason came | WALLED_UP |
"""


def test_a_machine_is_rendered_exactly() -> None:
    assert render_machine("house.door", DOOR) == DOOR_SECTION


def test_a_page_is_the_introduction_and_one_section_per_machine() -> None:
    assert render_page([FoundTable("house.door", DOOR)] * 2) == f"{INTRO}\n{DOOR_SECTION}\n{DOOR_SECTION}"


def test_a_page_without_machines_says_so() -> None:
    assert render_page([]) == f"{INTRO}\nThere are no machines yet.\n"


@pytest.mark.parametrize("cause", ["a: b", "a; b", "a # b", "a %% b", "a <br> b", "a | b", "a\nb", " "])
def test_a_cause_that_breaks_the_page_is_refused(cause: str) -> None:
    table = TransitionTable("Door", "", Door.OPEN, [(Door.OPEN, cause, Door.SHUT)])
    with pytest.raises(EngineError, match=r"Door: the cause .* say it in words"):
        render_machine("house.door", table)


@pytest.mark.parametrize("name", ["NOTE", "Tür"])
def test_a_state_that_breaks_the_diagram_is_refused(name: str) -> None:
    state = Enum("state", {name: 1})  # type: ignore[misc]
    with pytest.raises(EngineError, match=f"Mermaid cannot draw a state called '{name}'"):
        render_machine("house.door", TransitionTable("Door", "", state(1), []))


def test_tables_are_found_where_they_are_defined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "machines_page_house"
    (package / "cellar").mkdir(parents=True)
    (package / "__init__.py").write_text("from machines_page_house.window import LATCH\n")
    (package / "cellar" / "__init__.py").write_text("")
    (package / "cellar" / "hatch.py").write_text(_module_with(_HATCH="Hatch"))
    (package / "window.py").write_text(_module_with(PANE="Pane", LATCH="Latch") + "ALIAS = LATCH\n")
    monkeypatch.syspath_prepend(tmp_path)

    found = find_tables(importlib.import_module("machines_page_house"))

    assert [(module, table.machine) for module, table in found] == [
        ("machines_page_house.cellar.hatch", "Hatch"),
        ("machines_page_house.window", "Latch"),
        ("machines_page_house.window", "Pane"),
    ]


def test_check_notices_a_page_that_is_missing_or_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "docs" / "machines.md"
    assert main(["--check", str(path)]) == 1
    assert capsys.readouterr().err == f"{path} is missing: run `make docs`\n"

    assert main([str(path)]) == 0
    assert path.read_text(encoding="utf-8") == render_page(find_tables(snapline.protocol))
    assert main(["--check", str(path)]) == 0
    assert capsys.readouterr().err == ""

    path.write_text(path.read_text(encoding="utf-8") + "\nedited by hand\n", encoding="utf-8")
    assert main(["--check", str(path)]) == 1
    assert capsys.readouterr().err.endswith("run `make docs`\n")


def _module_with(**tables: str) -> str:
    lines = [
        "from enum import Enum",
        "from snapline.protocol.machine import TransitionTable",
        "State = Enum('State', ['ON'])",
    ]
    lines += [f"{name} = TransitionTable({machine!r}, '', State.ON, [])" for name, machine in tables.items()]
    return "\n".join(lines) + "\n"
