"""The page of the docs that says which versions were tried, when, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tests.frameworks.environments import ROOT, YEAR_OLD

PAGE = ROOT / "docs" / "frameworks.md"
HEAD = f"""# Frameworks that were tried

<!-- Made by `python -m tests.frameworks --write`. -->

Each framework has an environment of its own, with its newest version or with that which was newest on
{YEAR_OLD} (and all that it needs, as of that day), and pytest-agenteval beside it; model and tool's API are
a server on this machine. Of each way of running it, the example of [agents.md](agents.md#frameworks) (`docs`)
and those that are named, this has to be true:

- the transcript has the agent's words, the call with its arguments, the result as the model was shown it, and
  the answer; `tool_called` passes;
- steps and tokens are those that the server counted;
- what `--agent-record=once --agent-record-chat=once` recorded is replayed word by word once the server is
  gone: no connection is begun;
- ten tasks at once, those of the docs' example ten times each, are not mixed up;
- under `limits: {{steps: 4}}` a model that never ends is asked four times;
- after the end of a trial that ran out of time, nothing more is asked;
- without flags nothing is sent, and a flag is named.

"""
NOTE = """
¹ without our litellm, which wants other versions of what this one needs; ² without our mcp, too: neither is
needed by an agent of one's own.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One framework in one age: what was installed, which ways were tried, and the faults of each."""

    framework: str
    age: str
    versions: tuple[str, ...]
    left_out: tuple[str, ...]
    ways: tuple[str, ...]
    faults: tuple[str, ...]
    trials: int
    seconds: float
    day: str


def write_page(rows: Sequence[Row], place: Path) -> None:
    """Put the rows in the place of earlier ones of the same framework and age, and write the page."""
    notes = place / "rows.json"
    earlier = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else []
    merged: dict[str, Mapping[str, Any]] = {f"{row['framework']} {row['age']}": row for row in earlier}
    merged.update({f"{row.framework} {row.age}": asdict(row) for row in rows})
    notes.write_text(json.dumps(list(merged.values()), indent=1), encoding="utf-8", newline="\n")
    lines = [_line(row) for row in sorted(merged.values(), key=lambda row: (row["framework"], row["age"]))]
    head = ("| framework | versions | ways | trials | holds | tried |", "|---|---|---|---|---|---|")
    PAGE.write_text(HEAD + "\n".join([*head, *lines]) + "\n" + NOTE, encoding="utf-8", newline="\n")


def _line(row: Mapping[str, Any]) -> str:
    mark = "²" if "mcp" in row["left_out"] else "¹" if row["left_out"] else ""
    versions = ", ".join(each.replace("==", " ") for each in row["versions"]) + mark
    holds = "all" if not row["faults"] else "; ".join(row["faults"][:2]).replace("|", "\\|")
    name = f"{row['framework']} ({row['age'].replace('-', ' ')})"
    return f"| {name} | {versions} | {', '.join(row['ways'])} | {row['trials']} | {holds} | {row['day']} |"


def today() -> str:
    """Give the day that stands in the table."""
    return date.today().isoformat()
