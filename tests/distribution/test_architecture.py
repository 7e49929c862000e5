"""docs/project/architecture.md is the house as it stands: its rooms, its floors, its paths.

``python -m tests.distribution.test_architecture`` writes its rooms and floors from the code.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.test_floors import FLOORS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pytest_agenteval"
PAGE = ROOT / "docs" / "project" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")
PATHS = set(re.findall(r"`([\w./-]+(?:/|\.py|\.md))`", TEXT))


def drawn(text: str) -> str:
    """Put the rooms, each with what it says of itself, and the floors of the code into the page."""
    names = [
        "__init__.py",
        "plugin.py",
        *(f"{room}/" for floor in FLOORS[::-1] for room in floor if room != "plugin"),
    ]
    rooms = "".join(f"{name:<14}{_first_paragraph(SOURCE / name)}\n" for name in names)
    floors = "".join(", ".join(floor) + "\n" for floor in FLOORS)
    for kind, block in (("text", rooms), ("floors", floors)):
        text, found = re.subn(
            rf"(?<=^```{kind}\n).*?(?=^```)", lambda _, block=block: block, text, count=1, flags=re.M | re.S
        )
        assert found, f"the page has no block ```{kind}"
    return text


def _first_paragraph(room: Path) -> str:
    source = room if room.is_file() else room / "__init__.py"
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def test_rooms_and_floors_are_those_of_the_code() -> None:
    """Every room stands on the page with the first sentence of its docstring, and on its floor."""
    there = {
        path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }

    assert there == {Path(room).stem + ".py" * (room == "plugin") for floor in FLOORS for room in floor} | {
        "__init__.py"
    }
    assert drawn(TEXT) == TEXT


def test_every_path_that_is_named_is_there() -> None:
    """Below the package, or in the project where it begins with a folder of the project."""
    missing = [path for path in PATHS if not ((SOURCE / path).exists() or (ROOT / path).exists())]

    assert len(PATHS) > 60
    assert [path for path in missing if path not in ("conftest.py", "__init__.py")] == []


if __name__ == "__main__":
    PAGE.write_text(drawn(TEXT), encoding="utf-8")
