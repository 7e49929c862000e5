"""docs/architecture.md is the house as it stands: its rooms, its floors, its paths."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.test_floors import FLOORS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pytest_agenteval"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS = dict(
    re.findall(r"^([\w/.]+?)/? {2,}(\S.*)$", re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S)[0], re.M)
)
PATHS = set(re.findall(r"`([\w./-]+(?:/|\.py|\.md))`", PAGE))


def test_every_room_is_named_with_the_first_sentences_of_its_docstring() -> None:
    """The page says of a room what the room says of itself, of every room and of no other."""
    rooms = [path for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]

    assert {path.name: _first_paragraph(path) for path in rooms} == ROOMS


def _first_paragraph(room: Path) -> str:
    source = room if room.is_file() else room / "__init__.py"
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def test_every_path_that_is_named_is_there() -> None:
    """Below the package, or in the project where it begins with a folder of the project."""
    missing = [path for path in PATHS if not ((SOURCE / path).exists() or (ROOT / path).exists())]

    assert len(PATHS) > 60
    assert [path for path in missing if path not in ("conftest.py", "__init__.py")] == []


def test_the_floors_are_those_that_are_held() -> None:
    """A floor that moved moves here too."""
    (block,) = re.findall(r"^```floors\n(.*?)^```", PAGE, re.M | re.S)

    assert [tuple(line.split(", ")) for line in block.splitlines()] == list(FLOORS)
